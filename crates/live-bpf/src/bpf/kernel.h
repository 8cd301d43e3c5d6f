/* SPDX-License-Identifier: MIT OR Apache-2.0 OR GPL-2.0-only */
/*
 * What the programs use of the kernel, and nothing else. The structures name only the fields that are touched;
 * preserve_access_index makes the loader look up their true offsets in the running kernel's BTF, so this file
 * replaces vmlinux.h and the objects run on any kernel that has the fields.
 */
#ifndef PENSTOCK_KERNEL_H
#define PENSTOCK_KERNEL_H

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef int s32;
typedef unsigned long long u64;
typedef long long s64;

#define SEC(name) __attribute__((section(name), used))
#define INLINE static inline __attribute__((always_inline))

#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)

struct sock_common {
	u16 skc_num; /* local port, host order */
};

struct sock {
	struct sock_common __sk_common;
	unsigned long sk_pacing_rate; /* bytes/s */
	unsigned long sk_max_pacing_rate;
	u32 sk_pacing_status;
};

struct inet_sock {
	struct sock sk;
};

struct inet_connection_sock {
	struct inet_sock icsk_inet;
	struct {
		u8 pending;
	} icsk_ack;
	u64 icsk_ca_priv[13]; /* the congestion control's own state, zeroed by the kernel before init */
};

struct tcp_sock {
	struct inet_connection_sock inet_conn;
	u32 snd_una;
	u32 snd_nxt;
	u32 snd_cwnd;
	u32 snd_cwnd_cnt;
	u32 snd_cwnd_clamp;
	u32 snd_ssthresh;
	u32 rcv_nxt;
	u32 rcv_wup; /* rcv_nxt when the last ACK was sent */
	u32 srtt_us; /* eight times the smoothed round-trip time */
	u32 delivered;
	u32 delivered_ce;
	u8 ecn_flags;
};

#pragma clang attribute pop

/* A program sees its arguments as an array of words. */
typedef u32 (*operation)(u64 *args);

/* The layout is this file's own: libbpf carries the members over by name. */
struct tcp_congestion_ops {
	operation init;
	operation ssthresh;
	operation cong_avoid;
	operation set_state;
	operation cwnd_event;
	operation in_ack_event;
	operation cong_control;
	operation undo_cwnd;
	u32 flags;
	char name[16];
};

/* Flags of a congestion control. Non-restricted, or a new namespace could not use it without the right to. */
#define TCP_CONG_NON_RESTRICTED 1
#define TCP_CONG_NEEDS_ECN 2

/* cwnd_event */
#define CA_EVENT_TX_START 0
#define CA_EVENT_LOSS 3
#define CA_EVENT_ECN_NO_CE 4
#define CA_EVENT_ECN_IS_CE 5

/* in_ack_event */
#define CA_ACK_ECE 4

/* set_state */
#define TCP_CA_CWR 2
#define TCP_CA_RECOVERY 3
#define TCP_CA_LOSS 4

/* tcp_sock.ecn_flags */
#define TCP_ECN_OK 1
#define TCP_ECN_DEMAND_CWR 4 /* while set, outgoing ACKs carry ECE */

#define ICSK_ACK_NOW 16

#define SK_PACING_NONE 0
#define SK_PACING_NEEDED 1

#define SOL_TCP 6
#define TCP_CONGESTION 13

/* Maps are described by the types of the members (libbpf's convention). */
#define MAP_TYPE_ARRAY 2
#define MAP_MMAPABLE 1024
#define MAP_UINT(name, value) int (*name)[value]
#define MAP_TYPE(name, type) type *name

/* One entry for every TCP port: the key is the local port of the socket. */
#define PORTS 65536

static void *(*bpf_map_lookup_elem)(void *map, const void *key) = (void *)1;
static long (*bpf_setsockopt)(void *sk, int level, int name, void *value, int length) __attribute__((unused)) =
	(void *)49;
static long (*bpf_tcp_send_ack)(struct tcp_sock *tp, u32 rcv_nxt) = (void *)116;

INLINE u32 port_of(struct tcp_sock *tp)
{
	return tp->inet_conn.icsk_inet.sk.__sk_common.skc_num;
}

#endif
