//! The parameters all scenarios share, beside those of the network.

use penstock_core::{Kind, ParamSpec};

/// Parameters every scenario has, beside those of the network ([`KEYS`](crate::fabric_options::KEYS)).
pub const COMMON: &[ParamSpec] = &[
    ParamSpec::new(
        "profile",
        Kind::Choice(&["paper", "25g", "100g"]),
        "paper",
        "named set of defaults: paper = the scenario's own, 25g and 100g = Linux hosts of today behind a switch of that rate; given keys override it",
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
        "when a closed loop continues: travel: when the receiver has all data, and what applications tell each other, such as the next \
         request or the end of a repetition, takes the idle delay of the path; instant: when the sender has the last acknowledgement, \
         without delay",
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
        "share of the ticks of rto_granularity that miss the Linux sender's timers set by a write; these wait for the next tick; drawn once for all \
        hosts",
        "0: a clock that misses none",
    )
    .range(0.0, 0.499),
    ParamSpec::new(
        "missed_ticks_arrival",
        Kind::Float,
        "0",
        "share of the ticks of rto_granularity that miss timers set by an arrival, receivers' included; these wait for the next tick",
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
        "Linux's delayed ACKs: longest delay of a compressed ACK behind a gap, limited to a twentieth of the round trip; 0s = none",
        "Linux tcp_comp_sack_delay_ns",
    )
    .range(0.0, 1.0),
    ParamSpec::new(
        "gso",
        Kind::Count,
        "1",
        "Linux sender: most segments in one burst of segmentation offload, limited to 1/1024 s of data but at least 2; 1 = no bursts",
        "Linux tcp_tso_autosize, gso_max_segs",
    )
    .range(1.0, 65_535.0),
    ParamSpec::new(
        "gro",
        Kind::Duration,
        "0s",
        "Linux sender: time for which a receiver's interrupt collects consecutive segments, which TCP gets as one; 0s = no collection",
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
        "quantity that a loss halves",
        "RFC 5681 eq. (4); cwnd: Linux, ns-2",
    ),
    ParamSpec::new(
        "ecn_floor",
        Kind::Choice(&["segment", "none", "backoff"]),
        "segment",
        "smallest window after a mark (reno, newreno, sack with ecn=true); below a segment nothing is sent until the retransmission timer expires, and `backoff` doubles that timer when the next ACK is marked as well",
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
        "ecn_fallback",
        Kind::Bool,
        "",
        "a SYN that is sent again asks for no ECN, and a peer that has not seen the first one grants none; unset = with Linux's sender",
        "RFC 3168 section 6.1.1.1; tcp_ecn_fallback",
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
        "ACKs of a SACK protocol report duplicate segments (D-SACK); unset = on with tail_loss_probe, because an unneeded probe would look like a \
        loss",
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
        "what begins with small segments: every write on an idle connection, or the connection only",
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
        "record per-packet statistics: tables of out-of-order distances, paths, trims by flow, completion by receiver, recovery from failures",
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
        "most data of one connection in its host's port: bytes, packets (pkt) or unlimited",
        "unlimited: ns-2; 2pkt: about Linux's TCP small queues",
    ),
    ParamSpec::new(
        "nic",
        Kind::Choice(&["endless", "pull"]),
        "",
        "network card of a host: with endless, allowed packets enter its queue at once; with pull, the card fetches a packet when its link is free; \
        unset = endless for TCP; other transports have pull only",
        "endless: ns-2; pull: queue pairs of RDMA, NDP",
    ),
    ParamSpec::new(
        "nic_order",
        Kind::Choice(&["round-robin", "strict"]),
        "round-robin",
        "connection that a pulling card serves: each in turn, or the one opened first while it has data",
        "chosen",
    ),
    ParamSpec::new(
        "receive_delay",
        Kind::Duration,
        "0s",
        "time from the arrival of a packet at a host to its transport",
        "0s: the papers' hosts",
    )
    .range(0.0, 1.0),
    ParamSpec::new(
        "receive_jitter",
        Kind::Duration,
        "0s",
        "additional receive_delay of each packet, U(0, this), in order: noise of interrupts and of other work of the host",
        "0s: the papers' hosts",
    )
    .range(0.0, 1.0),
    ParamSpec::new(
        "receive_lag",
        Kind::Text,
        "none",
        "lateness of the network thread that all hosts share, after a sleep, as quantiles SHARE:TIME,...,1:TIME; from 1 ms on, timers of hosts wait, \
        too; none = never late",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "data_handover",
        Kind::Text,
        "none",
        "time in which the shared network thread delivers a packet with payload, as quantiles (see receive_lag); the thread does nothing else \
        meanwhile",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "ack_handover",
        Kind::Text,
        "none",
        "time in which the shared network thread delivers a packet without payload, such as an ACK, as quantiles (see receive_lag)",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "timer_lag",
        Kind::Text,
        "none",
        "lateness of a host's timers, pacing included, as quantiles (see receive_lag); no effect with nic=pull; a suffix ;SHARE or ;TIME:SHARE,... \
        is the share of long pauses in which timers wait",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "receiver_turn",
        Kind::Text,
        "none",
        "time from the arrival of a packet with payload to the receiver's immediate ACK, as quantiles (see receive_lag); with the suffix \
        ;SHARE:PACKETS, that share of the variance persists for so many packets of a host on average",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "dupack_turn",
        Kind::Text,
        "none",
        "time from the arrival of a packet with payload to a duplicate ACK, as quantiles (see receiver_turn); none = as receiver_turn",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "sender_turn",
        Kind::Text,
        "none",
        "time from the arrival of an ACK to the data that it releases, as quantiles (see receiver_turn)",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "write_lag",
        Kind::Text,
        "none",
        "lateness of the shared application thread with a write on an open connection, as quantiles (see receive_lag); waits for other writes \
        excluded",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "write_time",
        Kind::Text,
        "none",
        "time for which a write occupies the shared application thread, as quantiles (see receive_lag); writes that become due meanwhile wait, \
        whatever their host",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "write_turn",
        Kind::Text,
        "none",
        "time from the beginning of a write to the packet that it releases, as quantiles (see receive_lag)",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "application_lag",
        Kind::Text,
        "none",
        "time from the delivery of the first unread byte to the application's read of all data, as quantiles (see receive_lag); only for receivers \
        of the Linux sender (tcp=linux)",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "application_turn",
        Kind::Text,
        "none",
        "time from the delivery of the first unread byte to the ACK that the read releases, as quantiles (see receiver_turn); only for receivers of \
        the Linux sender (tcp=linux)",
        "none: the papers' hosts",
    ),
    ParamSpec::new(
        "application_correlation",
        Kind::Float,
        "0",
        "correlation between application_lag and the application_turn of its ACK, as normal deviates; above 0, a late read has a late ACK; needs \
        both keys",
        "0: each for itself",
    )
    .range(-1.0, 1.0),
    ParamSpec::new(
        "processing_delay",
        Kind::Duration,
        "0s",
        "processing time of a host per arrived packet, one at a time, before its transport",
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
