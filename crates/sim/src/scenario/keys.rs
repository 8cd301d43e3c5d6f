//! The parameters all scenarios share, beside those of the network.

use penstock_core::{Kind, ParamSpec};

/// Parameters every scenario has, beside those of the network ([`KEYS`](crate::fabric_options::KEYS)).
pub const COMMON: &[ParamSpec] = &[
    ParamSpec::new(
        "profile",
        Kind::Choice(&["paper", "25g", "100g"]),
        "paper",
        "named set of defaults: paper = the scenario's own, 25g and 100g = Linux hosts of today behind a switch of that rate; a key that \
         is given beats it",
        "",
    ),
    ParamSpec::new("protocol", Kind::Text, "newreno", "congestion control, NAME or NAME:key=value,...", ""),
    ParamSpec::new(
        "queue",
        Kind::Text,
        "droptail",
        "queue discipline of switch ports, NAME or NAME:key=value,...",
        "",
    ),
    ParamSpec::new("duration", Kind::Duration, "10s", "simulated time", "chosen").range(1e-9, 1e6),
    ParamSpec::new(
        "requests",
        Kind::Choice(&["travel", "instant"]),
        "travel",
        "when a closed loop goes on. travel: the receiver has all data, and its next request or its word takes the idle delay of the \
         path; instant: the sender has the last acknowledgement, and the next request takes no time",
        "travel: a client sees its data, not the servers' acknowledgements",
    ),
    ParamSpec::new("warmup", Kind::Duration, "0s", "statistics count from here", "chosen").range(0.0, 1e6),
    ParamSpec::new(
        "segment",
        Kind::Size,
        "1460B",
        "payload of a full segment (MSS)",
        "Ethernet MTU 1500 less 40",
    )
    .range(1.0, 65_000.0),
    ParamSpec::new("header", Kind::Size, "40B", "IP and TCP header without options", "RFC 791, RFC 9293")
        .range(1.0, 1000.0),
    ParamSpec::new(
        "timestamps",
        Kind::Bool,
        "false",
        "timestamp option: 12 bytes, an RTT sample per ACK",
        "RFC 7323",
    ),
    ParamSpec::new(
        "framing",
        Kind::Choice(&["none", "ethernet"]),
        "none",
        "link framing: ethernet adds 38 B per packet",
        "IEEE 802.3: preamble, header, FCS, gap",
    ),
    ParamSpec::new("initial_window", Kind::Count, "10", "initial window in segments", "RFC 6928")
        .range(1.0, 10_000.0),
    ParamSpec::new(
        "rwnd",
        Kind::Amount,
        "1GB",
        "receive buffer, bytes or segments (pkt)",
        "chosen: not limiting; TCP has no larger window (RFC 7323 section 2.3)",
    )
    .range(1.0, 4e9),
    ParamSpec::new(
        "read_rate",
        Kind::Rate,
        "",
        "rate at which the receiving application reads; unset = at once",
        "",
    )
    .range(1.0, 1e15),
    ParamSpec::new(
        "rto_min",
        Kind::Duration,
        "200ms",
        "floor of the retransmission timeout",
        "Linux; RFC 6298 says 1 s",
    )
    .range(0.0, 1e4),
    ParamSpec::new(
        "rto_max",
        Kind::Duration,
        "60s",
        "ceiling of the retransmission timeout",
        "RFC 6298 section 2.5",
    )
    .range(1e-6, 1e6),
    ParamSpec::new(
        "rto_initial",
        Kind::Duration,
        "1s",
        "timeout before the first RTT sample",
        "RFC 6298 section 2.1",
    )
    .range(1e-6, 1e4),
    ParamSpec::new(
        "rto_granularity",
        Kind::Duration,
        "0s",
        "clock granularity of RTT samples and timeouts",
        "exact clock",
    )
    .range(0.0, 10.0),
    ParamSpec::new(
        "missed_ticks_write",
        Kind::Float,
        "0",
        "share of the ticks of rto_granularity at which timers of the Linux sender that were set as an application wrote do not go off: they wait for the next; \
         drawn for all hosts together, never two ticks in a row",
        "0: a clock that misses none",
    )
    .range(0.0, 0.499),
    ParamSpec::new(
        "missed_ticks_arrival",
        Kind::Float,
        "0",
        "the same for timers that were set as something arrived, those of receivers too",
        "0: a clock that misses none",
    )
    .range(0.0, 0.499),
    ParamSpec::new(
        "backoff_max",
        Kind::Count,
        "64",
        "largest back-off factor of the timeout",
        "RFC 6298 section 5.5, ns-2",
    )
    .range(1.0, 1e6),
    ParamSpec::new(
        "delayed_ack",
        Kind::Count,
        "1",
        "acknowledge every n-th segment; 1 = every one",
        "ns-2 TCPSink",
    )
    .range(1.0, 1000.0),
    ParamSpec::new(
        "quick_acks",
        Kind::Count,
        "0",
        "ACKs that are not delayed at the start, after a gap longer than rto_min and after a duplicate",
        "0: RFC 5681 section 4.2; 16: Linux",
    )
    .range(0.0, 1e6),
    ParamSpec::new(
        "delayed_ack_timeout",
        Kind::Duration,
        "40ms",
        "longest an ACK is delayed",
        "Linux; RFC 5681 allows 500 ms",
    )
    .range(0.0, 0.5),
    ParamSpec::new(
        "comp_sack",
        Kind::Duration,
        "1ms",
        "with Linux's delayed ACKs: longest an ACK behind a gap is held back (a twentieth of the round trip, at most this); 0s = not at all",
        "Linux tcp_comp_sack_delay_ns",
    )
    .range(0.0, 1.0),
    ParamSpec::new(
        "gso",
        Kind::Count,
        "1",
        "on Linux's sender: most segments that leave together, as many as it would send in 1/1024 s and no fewer than 2 (segmentation offload); 1 = each by itself",
        "Linux tcp_tso_autosize, gso_max_segs",
    )
    .range(1.0, 65_535.0),
    ParamSpec::new(
        "gro",
        Kind::Duration,
        "0s",
        "with Linux's sender: how long a receiver's interrupt waits for segments that follow each other, which TCP then gets as one; 0s = each by itself",
        "Linux tcp_gro_receive",
    )
    .range(0.0, 0.1),
    ParamSpec::new("dup_thresh", Kind::Count, "3", "duplicate ACKs that mean loss", "RFC 5681 section 3.2")
        .range(1.0, 1000.0),
    ParamSpec::new(
        "limited_transmit",
        Kind::Bool,
        "true",
        "new data on the first two duplicate ACKs",
        "RFC 3042",
    ),
    ParamSpec::new(
        "restart_after_idle",
        Kind::Bool,
        "true",
        "back to the initial window after an idle RTO",
        "RFC 5681 section 4.1",
    ),
    ParamSpec::new(
        "window_validation",
        Kind::Bool,
        "true",
        "the window grows only while it limits the sender",
        "RFC 7661",
    ),
    ParamSpec::new(
        "byte_counting",
        Kind::Bool,
        "false",
        "the window grows by the bytes acknowledged, not by the ACKs that arrive; differs where ACKs are delayed",
        "false: RFC 5681 eqs. (2), (3); true: RFC 3465, Linux",
    ),
    ParamSpec::new(
        "ssthresh_from",
        Kind::Choice(&["flight", "cwnd"]),
        "flight",
        "what is halved at a loss",
        "RFC 5681 eq. (4); cwnd: Linux, ns-2",
    ),
    ParamSpec::new(
        "ecn_floor",
        Kind::Choice(&["segment", "none", "backoff"]),
        "segment",
        "smallest window after a mark (reno, newreno, sack with ecn=true); below a segment nothing is sent until the retransmission timer expires, which `backoff` doubles when the next ACK is marked as well",
        "RFC 3168 section 6.1.2; backoff: ns-2",
    ),
    ParamSpec::new(
        "ect_syn",
        Kind::Bool,
        "",
        "SYN and SYN-ACK are ECN-capable; unset = what the protocol says: yes for dctcp and d2tcp, no for classic ECN",
        "RFC 8257 section 3.6; RFC 3168 section 6.1.1",
    ),
    ParamSpec::new(
        "tcp",
        Kind::Choice(&["rfc", "linux"]),
        "rfc",
        "linux: Linux's sender under any SACK protocol (RACK-TLP, PRR, F-RTO, undo, timeout, delayed ACKs); linux-reno, linux-cubic \
         and bbr always have it",
        "RFC 8985, RFC 9937, RFC 5682, RFC 4015",
    ),
    ParamSpec::new(
        "tail_loss_probe",
        Kind::Bool,
        "false",
        "tail-loss probe (needs a SACK protocol); on with Linux's sender if not set",
        "RFC 8985 section 7",
    ),
    ParamSpec::new(
        "dsack",
        Kind::Bool,
        "",
        "ACKs of a SACK protocol report what came twice; unset = where tail_loss_probe is on, or a needless probe behind a delayed \
         ACK is taken for a loss",
        "RFC 2883; RFC 8985 section 7.4.2; on in Linux",
    ),
    ParamSpec::new(
        "retransmit_probability",
        Kind::Float,
        "0",
        "chance that a run of the retransmit thread sends an outstanding segment again",
        "kulkarni-agrawal-incast algorithm 1; 0 = plain TCP",
    )
    .range(0.0, 1.0),
    ParamSpec::new(
        "retransmit_every",
        Kind::Duration,
        "20us",
        "time between two runs of the retransmit thread",
        "kulkarni-agrawal-incast section 4.2.2",
    )
    .range(1e-9, 10.0),
    ParamSpec::new(
        "retransmit_segment",
        Kind::Choice(&["newest", "oldest"]),
        "newest",
        "which outstanding segment the retransmit thread repeats",
        "kulkarni-agrawal-incast algorithm 1: the highest unacknowledged; oldest: ns-2's highest_ack_ + 1",
    ),
    ParamSpec::new(
        "retransmit_rests",
        Kind::Bool,
        "true",
        "the retransmit thread rests from the third duplicate ACK until recovery ends",
        "kulkarni-agrawal-incast algorithm 3: suspend retransmission thread",
    ),
    ParamSpec::new(
        "segment_start",
        Kind::Size,
        "",
        "first payload of a segment, enlarged as the window grows; unset = the full segment",
        "kulkarni-agrawal-incast section 4.3",
    )
    .range(1.0, 65_000.0),
    ParamSpec::new(
        "resize_window",
        Kind::Count,
        "50",
        "window in segments at which segments are enlarged",
        "kulkarni-agrawal-incast section 4.3.1",
    )
    .range(2.0, 1e6),
    ParamSpec::new(
        "resize_from",
        Kind::Choice(&["transfer", "connection"]),
        "transfer",
        "what begins with the small segments: every write on an idle connection, or the connection",
        "kulkarni-agrawal-incast section 4.3: begin its synchronized transfer",
    ),
    ParamSpec::new(
        "header_compression",
        Kind::Bool,
        "false",
        "compressed headers: about 4 of 40 bytes on the wire",
        "RFC 1144",
    ),
    ParamSpec::new(
        "receive_control",
        Kind::Text,
        "none",
        "receiver-side congestion control of every host, none or ictcp:key=value,...",
        "none: the window is the receive buffer",
    ),
    ParamSpec::new(
        "loss_events",
        Kind::Bool,
        "false",
        "record fast retransmits as events too, not only timeouts",
        "",
    ),
    ParamSpec::new(
        "pause_events",
        Kind::Bool,
        "false",
        "record every pause and resume of a port as an event, with port and priority",
        "",
    ),
    ParamSpec::new(
        "deliveries",
        Kind::Bool,
        "false",
        "look at every packet: tables of out-of-order distances, paths, trims by flow, completion by receiver, recovery from failures",
        "",
    ),
    ParamSpec::new(
        "send_jitter",
        Kind::Duration,
        "",
        "timing noise of a host: a packet with payload leaves U(0, this) late, in order; unset = one full packet's time at the \
         bottleneck, 0s = exact clocks",
        "chosen: breaks the phase lock of hosts of equal rate",
    )
    .range(0.0, 1.0),
    ParamSpec::new(
        "host_queue",
        Kind::Text,
        "unlimited",
        "how much of one connection may stand in its own host's port: bytes, packets (pkt) or unlimited",
        "unlimited: ns-2; 2pkt: about Linux's TCP small queues",
    ),
    ParamSpec::new(
        "nic",
        Kind::Choice(&["endless", "pull"]),
        "",
        "network card of a host: endless takes what a transport may send into a queue at once, pull asks for a packet when the link can \
         take one; unset = endless for TCP, pull for transports that are no TCP, which know no other",
        "endless: ns-2; pull: queue pairs of RDMA, NDP",
    ),
    ParamSpec::new(
        "nic_order",
        Kind::Choice(&["round-robin", "strict"]),
        "round-robin",
        "which connection of a host a card that pulls asks first: each in turn, or the one opened first as long as it has something",
        "chosen",
    ),
    ParamSpec::new(
        "receive_delay",
        Kind::Duration,
        "0s",
        "from the arrival of a packet at a host to its transport",
        "0s: the papers' hosts",
    )
    .range(0.0, 1.0),
    ParamSpec::new(
        "receive_jitter",
        Kind::Duration,
        "0s",
        "how much later than that its transport sees a packet at most, U(0, this), in order: noise of interrupts and of the host's other work",
        "0s: the papers' hosts",
    )
    .range(0.0, 1.0),
    ParamSpec::new(
        "receive_lag",
        Kind::Text,
        "none",
        "how late the one machine is that all hosts share, by quantiles, SHARE:TIME,SHARE:TIME,...,1:TIME: what falls due while it is late is seen \
         with what waits, what hosts send meanwhile enters the network after it, and with 1 ms timers of hosts wait too; none = every host is a machine of its own, and never late",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "data_handover",
        Kind::Text,
        "none",
        "time that the one machine takes to hand a packet with payload to its host, by quantiles as receive_lag: nothing else is seen meanwhile at \
         any host, and what hosts send enters the network after it",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "ack_handover",
        Kind::Text,
        "none",
        "the same for a packet without payload, such as an ACK",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "timer_lag",
        Kind::Text,
        "none",
        "how late timers of hosts go off, those of pacing too, by quantiles as receive_lag; no effect where network cards pull (nic=pull); with \
         ;SHARE behind it that share of the pauses of 1 ms and more of receive_lag is waited out, with ;TIME:SHARE,TIME:SHARE,... that of those of each length up to \
         the next, without it each",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "receiver_turn",
        Kind::Text,
        "none",
        "time a host takes for a packet with payload that has arrived, by quantiles as receive_lag: what a receiver takes until an ACK leaves that is \
         not left to its application; what comes meanwhile is taken with it or in its own time, in order; with ;SHARE:PACKETS behind it that share of its variance (of the normal \
         deviate at its place) lasts for so many packets of a host in the mean, without it each packet has its own",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "dupack_turn",
        Kind::Text,
        "none",
        "the same for a packet with payload that is answered with a duplicate ACK, as it lies behind a gap or has come before: nobody is woken for it; none: as receiver_turn",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "sender_turn",
        Kind::Text,
        "none",
        "the same for a packet without payload: what a sender takes from an ACK to the data that it releases",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "write_lag",
        Kind::Text,
        "none",
        "how late the one thread of all applications comes to a write on an open connection, unless it is at work on another one, by quantiles as receive_lag",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "write_time",
        Kind::Text,
        "none",
        "how long a write keeps that thread, by quantiles as receive_lag: what is due meanwhile, at whatever host, is written after it",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "write_turn",
        Kind::Text,
        "none",
        "time from the beginning of a write to what leaves by it, by quantiles as receive_lag",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "application_lag",
        Kind::Text,
        "none",
        "how late a host's application comes to read what has come, by quantiles as receive_lag, drawn when there is something to read; it reads all          there is; matters to receivers of the Linux sender (tcp=linux), which leave some of their ACKs to it",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "application_turn",
        Kind::Text,
        "none",
        "time from the data that an application is called for to the ACK that leaves by its read, as receiver_turn, and not before it has read (application_lag); the same receivers",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "application_correlation",
        Kind::Float,
        "0",
        "correlation of the normal deviates at whose place application_lag and, for the ACK of that read, application_turn are: above zero who comes late \
         answers late; no effect without both",
        "0: each for itself",
    )
    .range(-1.0, 1.0),
    ParamSpec::new(
        "processing_delay",
        Kind::Duration,
        "0s",
        "time a host takes for every packet that has arrived, one at a time, before its transport sees it",
        "0s: the papers' hosts",
    )
    .range(0.0, 1.0),
    ParamSpec::new("sample", Kind::Duration, "", "sampling interval of queue, cwnd, alpha; unset = none", "")
        .range(1e-9, 1e6),
    ParamSpec::new("series", Kind::Bool, "false", "keep the samples as a table (bounded)", ""),
    ParamSpec::new(
        "series_flows",
        Kind::Count,
        "256",
        "flows whose samples are kept, besides the bottleneck's",
        "chosen",
    )
    .range(0.0, 100_000.0),
    ParamSpec::new(
        "ties",
        Kind::Choice(&["forward", "reversed"]),
        "forward",
        "order of simultaneous events: arrivals, deadlines, workloads; a result that depends on it is an artefact",
        "",
    ),
];

/// Most times anything periodic may happen in a run, and most flows an open loop may begin: hours of work, and with
/// a row for each as much as a machine has memory.
pub const MOST_REPEATS: f64 = 1e8;
