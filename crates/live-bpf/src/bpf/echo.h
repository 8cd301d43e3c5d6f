/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/* The receiver's half of DCTCP (RFC 8257 section 3.2): an ACK carries ECE when the data it acknowledges carried CE. */
#ifndef PENSTOCK_ECHO_H
#define PENSTOCK_ECHO_H

#include "kernel.h"

struct echo {
	u32 prior_rcv_nxt; /* rcv_nxt before the segment in hand */
	u8 ce;             /* DCTCP.CE */
};

INLINE void echo_start(struct tcp_sock *tp, struct echo *e)
{
	e->prior_rcv_nxt = tp->rcv_nxt;
	e->ce = 0;
}

INLINE void set_ece(struct tcp_sock *tp, u8 ce)
{
	if (ce)
		tp->ecn_flags |= TCP_ECN_DEMAND_CWR;
	else
		tp->ecn_flags &= (u8)~TCP_ECN_DEMAND_CWR;
}

/* The kernel tells the codepoint of every data segment, after it has advanced rcv_nxt over it and obeyed its CWR. */
INLINE void echo_segment(struct tcp_sock *tp, struct echo *e, u8 ce)
{
	if (ce != e->ce) {
		/* The recommended two ACKs: first the segments before this one, if none acknowledged them yet, with
		 * the state they came in... */
		if ((s32)(e->prior_rcv_nxt - tp->rcv_wup) > 0) {
			set_ece(tp, e->ce);
			bpf_tcp_send_ack(tp, e->prior_rcv_nxt);
		}
		/* ... then this one, at once, with the new state. */
		tp->inet_conn.icsk_ack.pending |= ICSK_ACK_NOW;
		e->ce = ce;
	}
	/* Set again even when nothing changed: CWR, or a kernel that only knows RFC 3168, may have altered it. */
	set_ece(tp, ce);
	e->prior_rcv_nxt = tp->rcv_nxt;
}

#endif
