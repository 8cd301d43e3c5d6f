//! The fields of recorded rows as numbers: in a file with a fixed number of bytes each, and compressed in memory.

use super::compressed::{Columns, Compress, Reader};
use super::row::{Row, Words};
use super::{Entity, Event, FlowRecord, SeriesRow, TransferRecord, What};
use penstock_core::tcp::TimeoutKind;
use penstock_units::{Dur, Time};

/// A field of a row: a number of `WIDTH` bytes at most, and back.
trait Field {
    const WIDTH: usize;
    fn number(&self, words: &mut Words) -> u64;
    fn of_number(number: u64, words: &Words) -> Self;
}

macro_rules! fields {
    ($($kind:ty, $width:literal: $to:expr, $from:expr;)*) => {$(
        impl Field for $kind {
            const WIDTH: usize = $width;
            #[inline(always)]
            fn number(&self, _: &mut Words) -> u64 {
                let to: fn($kind) -> u64 = $to;
                to(*self)
            }
            #[inline(always)]
            fn of_number(number: u64, _: &Words) -> $kind {
                let from: fn(u64) -> $kind = $from;
                from(number)
            }
        }
    )*};
}
fields! {
    bool, 1: u64::from, |number| number != 0;
    u16, 2: u64::from, |number| number as u16;
    u32, 4: u64::from, |number| number as u32;
    u64, 8: |number| number, |number| number;
    f64, 8: f64::to_bits, f64::from_bits;
    Time, 8: |time| time.0, Time;
    Dur, 8: |time| time.0, Dur;
    Entity, 1: |entity| entity as u64, |number| Entity::ALL[number as usize];
}

const TIMEOUTS: [TimeoutKind; 6] = [
    TimeoutKind::WindowLost,
    TimeoutKind::FewDupAcks,
    TimeoutKind::RetransmitLost,
    TimeoutKind::Repeated,
    TimeoutKind::Syn,
    TimeoutKind::Probe,
];
const FAST_RETRANSMIT: u64 = TIMEOUTS.len() as u64;
const BLOCK_DONE: u64 = FAST_RETRANSMIT + 1;
const PAUSE: u64 = BLOCK_DONE + 1;
const RESUME: u64 = PAUSE + 1;
const CHANGES: u64 = RESUME + 1;

impl Field for What {
    const WIDTH: usize = 2;
    fn number(&self, words: &mut Words) -> u64 {
        match self {
            What::Timeout(kind) => {
                TIMEOUTS.iter().position(|k| k == kind).expect("all kinds are listed") as u64
            }
            What::FastRetransmit => FAST_RETRANSMIT,
            What::Block => BLOCK_DONE,
            What::Pause => PAUSE,
            What::Resume => RESUME,
            What::Change(word) => CHANGES + words.number(word) as u64,
        }
    }
    fn of_number(number: u64, words: &Words) -> Self {
        match number {
            FAST_RETRANSMIT => What::FastRetransmit,
            BLOCK_DONE => What::Block,
            PAUSE => What::Pause,
            RESUME => What::Resume,
            kind if kind < FAST_RETRANSMIT => What::Timeout(TIMEOUTS[kind as usize]),
            change => What::Change(words.word((change - CHANGES) as usize)),
        }
    }
}

/// A row of these fields; a field that is missing here does not compile.
macro_rules! row {
    ($kind:ident { $($field:ident: $type:ty),* } $(place $place:ident)?) => {
        impl Row for $kind {
            const WIDTH: usize = 0 $(+ <$type as Field>::WIDTH)*;
            $(fn place(&self) -> Option<u64> {
                Some(u64::from(self.$place))
            })?
            fn put(&self, out: &mut Vec<u8>, words: &mut Words) {
                $(out.extend_from_slice(&self.$field.number(words).to_le_bytes()[..<$type as Field>::WIDTH]);)*
            }
            fn get(from: &mut &[u8], words: &Words) -> Self {
                $kind { $($field: {
                    let mut number = [0; 8];
                    let (own, rest) = from.split_at(<$type as Field>::WIDTH);
                    number[..own.len()].copy_from_slice(own);
                    *from = rest;
                    Field::of_number(u64::from_le_bytes(number), words)
                }),* }
            }
        }
    };
}
/// A row that can also be compressed in memory. None of its fields is a text.
macro_rules! compressed_row {
    ($kind:ident { $($field:ident: $type:ty),* } $($place:tt)*) => {
        row!($kind { $($field: $type),* } $($place)*);
        impl Compress for $kind {
            fn compress(rows: &[Self], columns: &mut Columns) {
                let mut words = Words::default();
                $(columns.put(rows.iter().map(|row| row.$field.number(&mut words)));)*
            }
            fn expand(from: &mut Reader<'_>, rows: &mut [Self]) {
                let words = Words::default();
                $(from.get(rows, |row, number| row.$field = <$type as Field>::of_number(number, &words));)*
            }
        }
    };
}
compressed_row!(FlowRecord {
    flow: u32, src: u32, dst: u32, workload: u32, protocol: u16, opened: Time, closed: Time, size: u64,
    open_at_end: bool, complete: bool, established: bool, transfers: u32, acked_bytes: u64,
    delivered_bytes: u64, data_packets: u64, ece_acks: u64, retransmits: u32, timeouts: u32,
    fast_retransmits: u32, tail_loss_probes: u32, drops: u32, srtt: Dur, rtt_mean: Dur, duplicate_bytes: u64, ideal: f64
} place flow);
compressed_row!(TransferRecord {
    flow: u32,
    started: Time,
    delivered: Time,
    acked: Time,
    bytes: u64,
    due: Time,
    ideal: f64
});
row!(Event {
    at: Time,
    flow: u32,
    what: What,
    block_start: bool,
    offset: u64,
    outstanding: u64,
    cwnd: u64,
    length: Dur,
    in_a_row: u32,
    drops: u64,
    lost: u64
});
row!(SeriesRow { at: Time, value: f64, number: u32, metric: u16, entity: Entity });

#[cfg(test)]
mod tests {
    use super::super::disk::Disk;
    use super::*;

    #[test]
    fn every_kind_of_event_is_read_back() {
        let kinds = TIMEOUTS.map(What::Timeout).into_iter();
        let kinds =
            kinds.chain([What::FastRetransmit, What::Block, What::Change("grows"), What::Change("rests")]);
        let mut rows: Vec<Event> = (1u64..)
            .zip(kinds)
            .map(|(i, what)| Event {
                at: Time(i),
                flow: if i == 1 { u32::MAX } else { 7 },
                what,
                block_start: i % 2 == 0,
                offset: i + 1,
                outstanding: i + 2,
                cwnd: i + 3,
                length: Dur(i + 4),
                in_a_row: 5,
                drops: i + 6,
                lost: i + 7,
            })
            .collect();
        let given = format!("{rows:?}");
        let mut disk = Disk::new(&std::env::temp_dir());
        disk.put(&mut rows);
        let mut back = Vec::new();
        disk.each(&mut |some: &[Event]| back.extend_from_slice(some));
        assert_eq!(format!("{back:?}"), given);
    }
}
