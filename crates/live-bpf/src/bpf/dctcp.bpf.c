/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * DCTCP as a congestion control of the Linux kernel, written from RFC 8257.
 *
 *  RFC 8257                     here
 *  3.1  switch marks            the switch of the live mode, not this file
 *  3.2  receiver, DCTCP.CE      echo.h, from cwnd_event ECN_IS_CE / ECN_NO_CE, which the kernel raises per data segment
 *                               because of TCP_CONG_NEEDS_ECN. A change of state sends two ACKs (the MAY of 3.2)
 *       CWR before CE           the kernel obeys CWR before it raises the event, which sets ECE anew
 *  3.3  steps 1-8: Alpha        in_ack_event, bytes by snd_una (SACK ignored), one update per window of data
 *       step 9: cwnd            ssthresh, when the kernel enters CWR: on the first ECE of a window of data, with Alpha
 *                               as of that ACK, and not again until that window is acknowledged. The kernel brings
 *                               cwnd there in the course of the window (proportional rate reduction, RFC 6937) and
 *                               does not let it grow before the window's end. The fraction of a packet is kept in
 *                               snd_cwnd_cnt, to one part in cwnd. Smallest window: 1 packet (an option). With
 *                               linux_rules a cut takes whole packets, and Alpha's window ends one ACK earlier
 *       CWR bit                 the kernel, on entering CWR
 *  3.4  growth                  tcp_reno_cong_avoid of the kernel (RFC 5681)
 *  3.5  loss                    half of cwnd, at least 2 packets, on entering Recovery or Loss (set_state, CA_EVENT_LOSS)
 *                               and on a loss that a tail-loss probe repaired; not a second time in a window that ECE
 *                               has already reduced. cwnd after a timeout: 1 packet, by the kernel
 *       not told apart          a packet that this host's own queue refuses is answered as the last ACK was: a
 *                               cut by Alpha if it carried ECE, by half if not
 *  3.6  ECT on SYN, SYN-ACK     the kernel, because of TCP_CONG_NEEDS_ECN; CE on them raises no event
 *  4.2  g, initial Alpha        options (g a power of two)
 *  5    peer without ECN        the connection is handed to the kernel's reno, which also stops sending ECT
 *
 * Written fields of tcp_sock: snd_cwnd_cnt, snd_ssthresh, ecn_flags, icsk_ack.pending, icsk_ca_priv. These, snd_cwnd
 * and the pacing rate are what the verifier lets a struct_ops program write.
 */

#include "echo.h"

char licence_text[] SEC("license") = "Dual MIT/GPL";

/* Alpha in units of 2^-30. */
#define ONE (1U << 30)

/* Patched before loading. */
const volatile struct {
	u32 g_shift;
	u32 initial_alpha;
	u32 min_window;
	u32 linux_rules; /* Alpha's window ends with the ACK of its end, and a cut takes whole packets, as in Linux's own */
	char fallback[8];
} options SEC(".rodata") = { 4, ONE, 1, 0, "reno" };

/* What user space may read, by port. */
struct report {
	u32 alpha;
	u32 known; /* 1: a connection was here; 2: it negotiated ECN */
};

struct {
	MAP_UINT(type, MAP_TYPE_ARRAY);
	MAP_UINT(map_flags, MAP_MMAPABLE);
	MAP_UINT(max_entries, PORTS);
	MAP_TYPE(key, u32);
	MAP_TYPE(value, struct report);
} reports SEC(".maps");

struct state {
	u64 acked;      /* DCTCP.BytesAcked */
	u64 marked;     /* DCTCP.BytesMarked */
	u32 alpha;      /* DCTCP.Alpha */
	u32 window_end; /* DCTCP.WindowEnd */
	u32 una;        /* snd_una at the last ACK */
	u32 cnt;        /* snd_cwnd_cnt at the last ACK: the kernel clears it before it asks for ssthresh */
	u32 prior_cwnd; /* before the last reduction */
	u8 ece;         /* the last ACK carried ECE */
	u8 ca_state;
	struct echo echo;
};

_Static_assert(sizeof(struct state) <= 13 * sizeof(u64), "state must fit icsk_ca_priv");

/* Slow start and congestion avoidance of RFC 5681, with the kernel's check that the window is in use. */
extern void tcp_reno_cong_avoid(struct tcp_sock *sk, u32 ack, u32 acked) SEC(".ksyms");

INLINE struct state *state_of(struct tcp_sock *tp)
{
	return (struct state *)tp->inet_conn.icsk_ca_priv;
}

INLINE void publish(struct tcp_sock *tp, u32 alpha, u32 known)
{
	u32 port = port_of(tp);
	struct report *r = bpf_map_lookup_elem(&reports, &port);

	if (r) {
		r->alpha = alpha;
		r->known = known;
	}
}

/* RFC 5681 equation (4), in packets, with the window in place of the flight size as the kernel's reno does it. */
INLINE u32 half(u32 cwnd)
{
	return cwnd / 2 > 2 ? cwnd / 2 : 2;
}

SEC("struct_ops") u32 dctcp_init(u64 *args)
{
	struct tcp_sock *tp = (void *)args[0];
	struct state *s = state_of(tp);

	if (!(tp->ecn_flags & TCP_ECN_OK)) {
		char reno[8];

		publish(tp, options.initial_alpha, 1);
		for (u32 i = 0; i < sizeof(reno); i++)
			reno[i] = options.fallback[i];
		bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, reno, sizeof(reno));
		return 0;
	}
	s->alpha = options.initial_alpha;
	s->window_end = s->una = tp->snd_una;
	echo_start(tp, &s->echo);
	publish(tp, s->alpha, 3);
	return 0;
}

/* Before the kernel reacts to the ACK in hand. */
SEC("struct_ops") u32 dctcp_in_ack_event(u64 *args)
{
	struct tcp_sock *tp = (void *)args[0];
	u32 flags = args[1];
	struct state *s = state_of(tp);
	u32 una = tp->snd_una;
	u32 bytes = una - s->una;

	s->una = una;
	s->ece = (flags & CA_ACK_ECE) != 0;
	s->cnt = tp->snd_cwnd_cnt;
	/* RFC 8257 section 3.3 steps 1-3 */
	s->acked += bytes;
	if (s->ece)
		s->marked += bytes;
	/* Step 4 */
	s32 past = una - s->window_end;

	if (past < 0 || (!past && !options.linux_rules))
		return 0;
	/* Step 5: M = BytesMarked / BytesAcked. Step 6: Alpha = Alpha (1 - g) + g M, rounded down. */
	u64 acked = s->acked;
	s64 m = acked ? s->marked * ONE / acked : 0;
	s64 alpha = s->alpha;

	alpha += (m - alpha) >> (options.g_shift & 31);
	s->alpha = alpha;
	/* Steps 7, 8 */
	s->window_end = tp->snd_nxt;
	s->acked = 0;
	s->marked = 0;
	publish(tp, alpha, 3);
	return 0;
}

SEC("struct_ops") u32 dctcp_ssthresh(u64 *args)
{
	struct tcp_sock *tp = (void *)args[0];
	struct state *s = state_of(tp);
	u32 cwnd = tp->snd_cwnd;

	s->prior_cwnd = cwnd;
	if (!s->ece || !cwnd)
		return half(cwnd);
	if (options.linux_rules) {
		u32 left = cwnd - (u32)((u64)cwnd * s->alpha >> 31);

		return left < options.min_window ? options.min_window : left;
	}
	/* Step 9: cwnd = cwnd (1 - Alpha / 2), in units of 2^-16 packets; cnt of cwnd packets are acknowledged towards
	 * the next whole one. */
	u64 window = ((u64)cwnd << 16) + ((u64)s->cnt << 16) / cwnd;
	u32 kept = (2 * ONE - s->alpha) >> 14;
	u64 cut = (window * kept) >> 17;
	u32 whole = cut >> 16;

	if (whole < options.min_window)
		return options.min_window;
	/* Rounded to nearest, so that many cuts of a small window do not add up to a smaller one. */
	tp->snd_cwnd_cnt = ((cut & 0xffff) * whole + 0x8000) >> 16;
	return whole;
}

SEC("struct_ops") u32 dctcp_set_state(u64 *args)
{
	struct tcp_sock *tp = (void *)args[0];
	u8 next = args[1];
	struct state *s = state_of(tp);

	/* Section 3.5. The kernel asked for ssthresh just before, without saying why, unless it was in CWR: then the
	 * window was already reduced and is not a second time. */
	if (next == TCP_CA_RECOVERY && s->ca_state != TCP_CA_CWR && s->ca_state != TCP_CA_RECOVERY) {
		tp->snd_ssthresh = half(s->prior_cwnd);
		tp->snd_cwnd_cnt = 0;
	}
	s->ca_state = next;
	return 0;
}

SEC("struct_ops") u32 dctcp_cwnd_event(u64 *args)
{
	struct tcp_sock *tp = (void *)args[0];
	u32 event = args[1];
	struct state *s = state_of(tp);

	if (event == CA_EVENT_ECN_IS_CE || event == CA_EVENT_ECN_NO_CE)
		echo_segment(tp, &s->echo, event == CA_EVENT_ECN_IS_CE);
	else if (event == CA_EVENT_LOSS) /* a timeout: right after the kernel asked for ssthresh */
		tp->snd_ssthresh = half(s->prior_cwnd);
	return 0;
}

SEC("struct_ops") u32 dctcp_cong_avoid(u64 *args)
{
	tcp_reno_cong_avoid((void *)args[0], args[1], args[2]);
	return 0;
}

/* The reduction was for nothing (a spurious retransmission). */
SEC("struct_ops") u32 dctcp_undo_cwnd(u64 *args)
{
	struct tcp_sock *tp = (void *)args[0];
	struct state *s = state_of(tp);

	return tp->snd_cwnd > s->prior_cwnd ? tp->snd_cwnd : s->prior_cwnd;
}

SEC(".struct_ops.link") struct tcp_congestion_ops dctcp = {
	.init = dctcp_init,
	.in_ack_event = dctcp_in_ack_event,
	.ssthresh = dctcp_ssthresh,
	.set_state = dctcp_set_state,
	.cwnd_event = dctcp_cwnd_event,
	.cong_avoid = dctcp_cong_avoid,
	.undo_cwnd = dctcp_undo_cwnd,
	.flags = TCP_CONG_NON_RESTRICTED | TCP_CONG_NEEDS_ECN,
	.name = "penstock-name", /* patched before loading */
};
