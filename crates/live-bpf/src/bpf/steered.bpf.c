/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * A congestion control without an opinion: window and pacing rate are read from an array that user space has mapped,
 * by the local port of the socket; what the connection went through is written into a second one.
 *
 * The window is what the array says, at every place where the kernel lets a congestion control speak:
 *   init                        the connection is established
 *   cong_control                every ACK, in place of the kernel's own growth and reduction (also in recovery: with
 *                               cong_control the kernel runs no proportional rate reduction, no restart after idle)
 *   set_state                   entering recovery and CWR; and after a timeout, where the kernel has just set the window
 *                               to what is in flight plus one: it is put back before anything is sent
 *   cwnd_event TX_START         the first segment after silence; the window in force for that one segment is the one of
 *                               the last ACK, for the rest of the burst the new one
 *   undo_cwnd                   after a spurious retransmission
 * Between these, a new value waits: for the next ACK while data are in flight. The kernel's limit on windows of a socket
 * (snd_cwnd_clamp) holds. A timeout retransmits one segment whatever the window, the rest follows with its ACK.
 *
 * Pacing: sk_pacing_rate, and sk_pacing_status NEEDED, with which the kernel paces by itself without the fq discipline.
 * It counts payload, not headers (measured: 2105 segments of 988 bytes a second at 2.08 MB/s), and does not pace the first
 * ten segments of a connection. SO_MAX_PACING_RATE of the socket holds.
 *
 * With ECN, the receiver echoes like one of DCTCP (echo.h), so that ACKs with ECE stand for data with CE and not for all
 * data until CWR; delivered_ce over delivered is then the marked fraction. The kernel still enters CWR on ECE (it shows
 * in `state` and sends CWR), but the window stays.
 */

#include "echo.h"

char licence_text[] SEC("license") = "Dual MIT/GPL";

struct steer {
	u64 pacing; /* bytes of payload per second; 0: unlimited */
	u32 window; /* packets; 0: the initial window */
	u32 unused;
};

struct {
	MAP_UINT(type, MAP_TYPE_ARRAY);
	MAP_UINT(map_flags, MAP_MMAPABLE);
	MAP_UINT(max_entries, PORTS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct steer);
} steers SEC(".maps");

struct seen {
	u32 losses;
	u32 timeouts;
	u32 ece_events;
	u32 cwnd;
	u32 srtt_us;
	u32 state;
	u32 delivered;
	u32 delivered_ce;
};

struct {
	MAP_UINT(type, MAP_TYPE_ARRAY);
	MAP_UINT(map_flags, MAP_MMAPABLE);
	MAP_UINT(max_entries, PORTS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct seen);
} seens SEC(".maps");

struct state {
	u32 initial; /* the window the kernel began with; 0: before init, or disconnected */
	u8 ca_state;
	struct echo echo;
};

_Static_assert(sizeof(struct state) <= 13 * sizeof(u64), "state must fit icsk_ca_priv");

INLINE struct state *state_of(struct tcp_sock *tp)
{
	return (struct state *)tp->inet_conn.icsk_ca_priv;
}

INLINE struct seen *seen_of(struct tcp_sock *tp)
{
	u32 port = port_of(tp);

	return bpf_map_lookup_elem(&seens, &port);
}

/* The window user space wants now. */
INLINE u32 window_of(struct tcp_sock *tp)
{
	u32 port = port_of(tp);
	const volatile struct steer *steer = bpf_map_lookup_elem(&steers, &port);
	u32 window = steer ? steer->window : 0;

	if (!window)
		window = state_of(tp)->initial;
	return window < tp->snd_cwnd_clamp ? window : tp->snd_cwnd_clamp;
}

INLINE void pace(struct tcp_sock *tp)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	u32 port = port_of(tp);
	const volatile struct steer *steer = bpf_map_lookup_elem(&steers, &port);
	u64 rate = steer ? steer->pacing : 0;
	u64 limit = sk->sk_max_pacing_rate;

	if (rate && sk->sk_pacing_status == SK_PACING_NONE)
		sk->sk_pacing_status = SK_PACING_NEEDED;
	if (!rate || rate > limit)
		rate = limit; /* all ones, which the kernel reads as "no pacing", unless the socket has set it */
	sk->sk_pacing_rate = rate;
}

INLINE void obey(struct tcp_sock *tp)
{
	if (!state_of(tp)->initial)
		return;
	tp->snd_cwnd = window_of(tp);
	pace(tp);
}

INLINE void publish(struct tcp_sock *tp)
{
	struct seen *seen = seen_of(tp);

	if (!seen)
		return;
	seen->cwnd = tp->snd_cwnd;
	seen->srtt_us = tp->srtt_us >> 3;
	seen->delivered = tp->delivered;
	seen->delivered_ce = tp->delivered_ce;
}

SEC("struct_ops") u32 steered_init(u64 *args)
{
	struct tcp_sock *tp = (void *)args[0];
	struct state *s = state_of(tp);
	struct seen *seen = seen_of(tp);

	s->initial = tp->snd_cwnd;
	echo_start(tp, &s->echo);
	if (seen) {
		seen->losses = 0;
		seen->timeouts = 0;
		seen->ece_events = 0;
		seen->state = 0;
	}
	obey(tp);
	publish(tp);
	return 0;
}

SEC("struct_ops") u32 steered_cong_control(u64 *args)
{
	struct tcp_sock *tp = (void *)args[0];

	obey(tp);
	publish(tp);
	return 0;
}

SEC("struct_ops") u32 steered_in_ack_event(u64 *args)
{
	struct tcp_sock *tp = (void *)args[0];
	u32 flags = args[1];
	struct seen *seen = seen_of(tp);

	if (seen && flags & CA_ACK_ECE)
		seen->ece_events++;
	return 0;
}

SEC("struct_ops") u32 steered_set_state(u64 *args)
{
	struct tcp_sock *tp = (void *)args[0];
	u8 next = args[1];
	struct state *s = state_of(tp);
	struct seen *seen = seen_of(tp);

	if (!s->initial) /* a disconnect clears the state, then tells of it: what was seen stays */
		return 0;
	obey(tp);
	if (seen) {
		if (next == TCP_CA_RECOVERY && s->ca_state != TCP_CA_RECOVERY)
			seen->losses++;
		if (next == TCP_CA_LOSS) /* once per expiry of the retransmission timer */
			seen->timeouts++;
		seen->state = next;
		seen->cwnd = tp->snd_cwnd;
	}
	s->ca_state = next;
	return 0;
}

SEC("struct_ops") u32 steered_cwnd_event(u64 *args)
{
	struct tcp_sock *tp = (void *)args[0];
	u32 event = args[1];

	if (event == CA_EVENT_TX_START)
		obey(tp);
	return 0;
}

/* The same with the receiver's echo. */
SEC("struct_ops") u32 steered_cwnd_event_ecn(u64 *args)
{
	struct tcp_sock *tp = (void *)args[0];
	u32 event = args[1];

	if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE)
		echo_segment(tp, &state_of(tp)->echo, event == CA_EVENT_ECN_IS_CE);
	else if (event == CA_EVENT_TX_START)
		obey(tp);
	return 0;
}

/* Only a report to the kernel: nothing here slows down or speeds up by it. */
SEC("struct_ops") u32 steered_ssthresh(u64 *args)
{
	struct tcp_sock *tp = (void *)args[0];
	u32 window = window_of(tp);

	return window > 2 ? window : 2;
}

SEC("struct_ops") u32 steered_undo_cwnd(u64 *args)
{
	return window_of((void *)args[0]);
}

/* One of the two is registered. */
SEC(".struct_ops.link") struct tcp_congestion_ops plain = {
	.init = steered_init,
	.cong_control = steered_cong_control,
	.set_state = steered_set_state,
	.cwnd_event = steered_cwnd_event,
	.ssthresh = steered_ssthresh,
	.undo_cwnd = steered_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED,
	.name = "penstock-name", /* patched before loading */
};

SEC(".struct_ops.link") struct tcp_congestion_ops ecn = {
	.init = steered_init,
	.cong_control = steered_cong_control,
	.in_ack_event = steered_in_ack_event,
	.set_state = steered_set_state,
	.cwnd_event = steered_cwnd_event_ecn,
	.ssthresh = steered_ssthresh,
	.undo_cwnd = steered_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN,
	.name = "penstock-name",
};
