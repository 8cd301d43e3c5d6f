//! What became of every packet: order of arrival, path, payloads cut off, what links that were down took. Kept where a run asks for it
//! (`deliveries`): every packet is looked at then, on the way that a recorded run takes.

use super::MAX_ROWS;
use penstock_core::packet::flag;
use penstock_core::tcp::Ranges;
use penstock_core::Packet;
use penstock_fabric::Loss;
use penstock_units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a flow when it opens.
#[derive(Clone, Copy, Debug, Default)]
pub struct Opened {
    /// Receiving host.
    pub dst: u32,
    /// Its protocol, by position.
    pub protocol: u16,
    /// Payload of a full packet.
    pub segment: u32,
    /// What a data packet has beside its payload, framing included.
    pub header: u32,
    /// Seconds of its first packet alone, without the time on the last link: until the last byte of it is acknowledged.
    pub lead: f64,
}

/// What became of the packets of a flow in the measured time.
#[derive(Clone, Debug, Default)]
pub struct FlowDeliveries {
    /// What it is.
    pub opened: Opened,
    /// Data packets that arrived whole.
    pub packets: u64,
    /// Those among them that had been sent before.
    pub again: u64,
    /// Packets whose payload was cut off.
    pub trims: u64,
    /// Arrived behind a later one; first copies only, as the next two.
    pub out_of_order: u64,
    /// Sum of the distances.
    pub distance_sum: u64,
    /// Largest distance.
    pub distance_max: u32,
    /// Highest first byte that has arrived in a first copy.
    highest: u64,
    /// Bytes that have arrived; followed where links fail.
    got: Ranges,
}

impl FlowDeliveries {
    /// First copies that arrived whole.
    pub fn first_copies(&self) -> u64 {
        self.packets - self.again
    }
}

/// A link, or both directions of a cable, that failed.
#[derive(Clone, Debug)]
pub struct Failure {
    /// When.
    pub at: Time,
    /// The links.
    pub links: Vec<u32>,
    /// Packets that it took, of any kind.
    pub lost: u64,
    /// Those among them with payload.
    pub data: u64,
    /// Flows that lost data to it.
    pub flows: BTreeSet<u32>,
    /// When it took the last one with payload: acknowledgements may go on to take a dead path that data has left.
    pub last_loss: Time,
    /// When everything that it had taken by then had arrived after all; the last such moment.
    healed: Time,
    /// Flows that miss something of what it took.
    missing: u32,
}

impl Failure {
    /// Seconds from the failure until all data that it took had arrived; zero when it took none, NaN while some is missing.
    pub fn recovery(&self) -> f64 {
        if self.missing > 0 {
            f64::NAN
        } else {
            self.healed.since(self.at).as_secs()
        }
    }
}

/// What became of every packet of a run.
#[derive(Default)]
pub struct Deliveries {
    /// Links of the run fail.
    follows: bool,
    measuring: bool,
    /// By row. In one of several logical processes by number, until these are joined.
    pub flows: BTreeMap<u32, FlowDeliveries>,
    /// First copies by protocol and distance.
    pub distances: BTreeMap<(u16, u32), u64>,
    /// Data packets that arrived whole, by the ports of their way.
    pub paths: BTreeMap<Vec<u32>, u64>,
    /// In order of time.
    pub failures: Vec<Failure>,
    /// What failures took and has not arrived, by flow and failure.
    missing: BTreeMap<(u32, u32), Ranges>,
    /// Links that are down, each with its failure.
    down: BTreeMap<u32, u32>,
    /// The way so far of the packet in each slot.
    ways: Vec<Vec<u32>>,
}

impl Deliveries {
    /// Nothing yet. `fails`: links will.
    pub fn new(fails: bool) -> Deliveries {
        Deliveries { follows: fails, ..Deliveries::default() }
    }
    /// Warm-up is over: counts begin.
    pub fn start(&mut self) {
        self.measuring = true;
        for f in self.flows.values_mut() {
            let (opened, highest, got) = (f.opened, f.highest, std::mem::take(&mut f.got));
            *f = FlowDeliveries { opened, highest, got, ..FlowDeliveries::default() };
        }
        self.distances.clear();
        self.paths.clear();
    }
    /// A flow opens.
    pub fn opened(&mut self, flow: u32, opened: Opened) {
        self.flows.entry(flow).or_default().opened = opened;
    }
    /// The packet in `slot` begins its way.
    pub fn sent(&mut self, slot: u32) {
        let at = slot as usize;
        if self.ways.len() <= at {
            self.ways.resize_with(at + 1, Vec::new);
        }
        self.ways[at].clear();
    }
    /// The way so far of the packet in `slot`, which goes on in another logical process.
    pub fn take_way(&mut self, slot: u32) -> Vec<u32> {
        std::mem::take(&mut self.ways[slot as usize])
    }
    /// The packet in `slot` has come here by `way`.
    pub fn goes_on(&mut self, slot: u32, way: &[u32]) {
        self.sent(slot);
        self.ways[slot as usize].extend_from_slice(way);
    }
    /// It has crossed a link.
    pub fn crossed(&mut self, slot: u32, port: u32) {
        self.ways[slot as usize].push(port);
    }
    /// The payload of a packet of `flow` was cut off.
    pub fn trimmed(&mut self, flow: u32) {
        if self.measuring {
            self.flows.entry(flow).or_default().trims += 1;
        }
    }
    /// A packet of the flow with this row has reached its host.
    pub fn delivered(&mut self, now: Time, slot: u32, p: &Packet, flow: u32) {
        let payload = u64::from(p.payload);
        let Some(f) = self.flows.get_mut(&flow).filter(|_| payload > 0) else { return };
        let again = p.has(flag::RETRANSMIT);
        // The distance: full packets from this one up to the latest of those sent after it that came before it. One that is sent
        // again comes late because the first copy was lost, which is not the paths' doing.
        let mut distance = 0;
        if !again {
            let behind = f.highest.saturating_sub(p.seq);
            distance = u32::try_from(behind.div_ceil(u64::from(f.opened.segment.max(1)))).unwrap_or(u32::MAX);
            f.highest = f.highest.max(p.seq);
        }
        if self.measuring {
            f.packets += 1;
            if again {
                f.again += 1;
            } else {
                f.out_of_order += u64::from(distance > 0);
                f.distance_sum += u64::from(distance);
                f.distance_max = f.distance_max.max(distance);
                *self.distances.entry((f.opened.protocol, distance)).or_default() += 1;
            }
            let way = &self.ways[slot as usize];
            if let Some(count) = self.paths.get_mut(way) {
                *count += 1;
            } else {
                self.paths.insert(way.clone(), 1);
                limit(&mut self.paths);
            }
        }
        if self.follows {
            f.got.insert(p.seq, p.seq + payload);
            self.fill(now, flow, p.seq, p.seq + payload);
        }
    }
    /// Bytes `[from, to)` of a flow have arrived: failures have taken so much less.
    fn fill(&mut self, now: Time, flow: u32, from: u64, to: u64) {
        if self.missing.is_empty() {
            return;
        }
        let mut whole = Vec::new();
        for ((_, failure), ranges) in self.missing.range_mut((flow, 0)..=(flow, u32::MAX)) {
            ranges.remove(from, to);
            if ranges.is_empty() {
                whole.push(*failure);
            }
        }
        for failure in whole {
            self.missing.remove(&(flow, failure));
            let failure = &mut self.failures[failure as usize];
            failure.missing -= 1;
            if failure.missing == 0 {
                failure.healed = now;
            }
        }
    }
    /// Links fail, or are back.
    pub fn links(&mut self, now: Time, links: &[u32], up: bool) {
        if up {
            self.down.retain(|link, _| !links.contains(link));
            return;
        }
        let number = self.failures.len() as u32;
        self.down.extend(links.iter().map(|link| (*link, number)));
        self.failures.push(Failure {
            at: now,
            links: links.to_vec(),
            lost: 0,
            data: 0,
            flows: BTreeSet::new(),
            last_loss: Time::NEVER,
            healed: now,
            missing: 0,
        });
    }
    /// A packet of the flow with this row is lost at `port`; `loss` is `None` where a switch knew no way on, which the latest failure is the cause of.
    pub fn lost(&mut self, now: Time, port: u32, p: &Packet, flow: u32, loss: Option<Loss>) {
        let latest = (self.failures.len() as u32).checked_sub(1);
        let number = match loss {
            Some(Loss::Down) => self.down.get(&port).copied().or(latest),
            Some(Loss::Queue(_)) => None,
            None => latest,
        };
        let Some(number) = number else { return };
        let failure = &mut self.failures[number as usize];
        failure.lost += 1;
        let Some(f) = self.flows.get(&flow).filter(|_| p.payload > 0) else { return };
        failure.data += 1;
        failure.last_loss = now;
        failure.flows.insert(flow);
        let mut gaps = f.got.gaps(p.seq, p.seq + u64::from(p.payload)).peekable();
        if gaps.peek().is_none() {
            return;
        }
        let missing = self.missing.entry((flow, number)).or_default();
        failure.missing += u32::from(missing.is_empty());
        for (from, to) in gaps {
            missing.insert(from, to);
        }
    }
    /// The run is over: what was needed on the way is let go of.
    pub fn finish(&mut self) {
        self.ways = Vec::new();
        self.flows.values_mut().for_each(|f| f.got.clear());
    }
    /// Adds what another logical process has found. No link of the run fails.
    pub fn join(&mut self, other: Deliveries) {
        for (flow, theirs) in other.flows {
            let own = self.flows.entry(flow).or_default();
            // The receiver knows all but the lead.
            let knows_more = own.opened.segment == 0 || theirs.opened.lead != 0.0;
            if theirs.opened.segment > 0 && knows_more {
                own.opened = theirs.opened;
            }
            own.packets += theirs.packets;
            own.again += theirs.again;
            own.trims += theirs.trims;
            own.out_of_order += theirs.out_of_order;
            own.distance_sum += theirs.distance_sum;
            own.distance_max = own.distance_max.max(theirs.distance_max);
        }
        other.distances.into_iter().for_each(|(key, n)| *self.distances.entry(key).or_default() += n);
        other.paths.into_iter().for_each(|(way, n)| *self.paths.entry(way).or_default() += n);
        limit(&mut self.paths);
    }
    /// Flows have rows.
    pub fn renumber(&mut self, row: impl Fn(u32) -> u32) {
        self.flows = std::mem::take(&mut self.flows).into_iter().map(|(flow, f)| (row(flow), f)).collect();
    }
    /// The distance below or at which so large a share of the first copies is; `None` without one.
    pub fn distance(&self, share: f64) -> Option<u32> {
        let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
        for ((_, distance), count) in &self.distances {
            *counts.entry(*distance).or_default() += count;
        }
        let all: u64 = counts.values().sum();
        let mut sum = 0;
        counts.into_iter().find_map(|(distance, count)| {
            sum += count;
            (sum as f64 >= share * all as f64).then_some(distance)
        })
    }
}

/// Keeps the first paths in their order. What is left out never comes back, so the counts of the others are complete.
fn limit(paths: &mut BTreeMap<Vec<u32>, u64>) {
    while paths.len() > MAX_ROWS {
        paths.pop_last();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use penstock_units::Time;

    fn packet(seq: u64, again: bool) -> Packet {
        let flags = if again { flag::RETRANSMIT } else { 0 };
        Packet { seq, payload: 1000, flags, ..Packet::default() }
    }

    fn one_flow(fails: bool) -> Deliveries {
        let mut d = Deliveries::new(fails);
        d.opened(0, Opened { segment: 1000, ..Opened::default() });
        d.start();
        d.sent(0);
        d
    }

    #[test]
    fn distances_count_packets_sent_later_and_arrived_before() {
        let mut d = one_flow(false);
        // 0, 3, 1, 2, 5, then 4 again: 1 is two behind 3, 2 one; the copy of 4 is none of it.
        for (seq, again) in
            [(0, false), (3000, false), (1000, false), (2000, false), (5000, false), (4000, true)]
        {
            d.delivered(Time(1), 0, &packet(seq, again), 0);
        }
        let f = &d.flows[&0];
        assert_eq!((f.packets, f.again, f.first_copies()), (6, 1, 5));
        assert_eq!((f.out_of_order, f.distance_sum, f.distance_max), (2, 3, 2));
        assert_eq!(d.distances.into_iter().collect::<Vec<_>>(), [((0, 0), 3), ((0, 1), 1), ((0, 2), 1)]);
    }

    #[test]
    fn a_failure_is_over_when_all_that_it_took_has_arrived() {
        let mut d = one_flow(true);
        let lose = |d: &mut Deliveries, at: u64, seq: u64| {
            d.lost(Time(at), 7, &packet(seq, false), 0, Some(Loss::Down));
        };
        d.links(Time(100), &[7, 8], false);
        assert_eq!(d.failures[0].recovery(), 0.0);
        lose(&mut d, 110, 0);
        lose(&mut d, 120, 1000);
        assert!(d.failures[0].recovery().is_nan());
        d.delivered(Time(150), 0, &packet(0, true), 0);
        assert!(d.failures[0].recovery().is_nan());
        d.delivered(Time(160), 0, &packet(1000, true), 0);
        assert_eq!(d.failures[0].recovery(), 60e-12);
        // A copy of what is there already is not missed; something new is.
        lose(&mut d, 170, 0);
        assert_eq!((d.failures[0].lost, d.failures[0].recovery()), (3, 60e-12));
        lose(&mut d, 180, 2000);
        assert!(d.failures[0].recovery().is_nan());
        d.delivered(Time(200), 0, &packet(2000, true), 0);
        assert_eq!((d.failures[0].recovery(), d.failures[0].last_loss), (100e-12, Time(180)));
        assert_eq!(d.failures[0].flows.len(), 1);
    }
}
