//! The packets of the kernel as the switch sees them: IPv4 and TCP headers (RFC 791, RFC 9293).

use penstock_core::packet::{flag, Ecn};

/// What the switch reads of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Segment {
    /// Source address.
    pub src: [u8; 4],
    /// Destination address.
    pub dst: [u8; 4],
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Bits of [`flag`].
    pub flags: u16,
    /// Reset.
    pub reset: bool,
    /// Window field, not scaled.
    pub window: u16,
    /// Payload in bytes.
    pub payload: u32,
    /// ECN field.
    pub ecn: Ecn,
    /// Offset of the TCP header.
    tcp: usize,
}

/// Reads a packet; `None` when it is not TCP over IPv4, or a fragment, or shorter than it says.
pub fn parse(packet: &[u8]) -> Option<Segment> {
    let be16 = |i: usize| u16::from_be_bytes([packet[i], packet[i + 1]]);
    let be32 = |i: usize| u32::from_be_bytes([packet[i], packet[i + 1], packet[i + 2], packet[i + 3]]);
    if packet.len() < 40 || packet[0] >> 4 != 4 || packet[9] != 6 || be16(6) & 0x3fff != 0 {
        return None;
    }
    let tcp = usize::from(packet[0] & 15) * 4;
    let total = usize::from(be16(2));
    if total > packet.len() || total < tcp + 20 {
        return None;
    }
    let header = usize::from(packet[tcp + 12] >> 4) * 4;
    let bits = packet[tcp + 13];
    let mut flags = 0;
    for (bit, meaning) in [(1, flag::FIN), (2, flag::SYN), (16, flag::ACK), (64, flag::ECE), (128, flag::CWR)]
    {
        if bits & bit != 0 {
            flags |= meaning;
        }
    }
    Some(Segment {
        src: [packet[12], packet[13], packet[14], packet[15]],
        dst: [packet[16], packet[17], packet[18], packet[19]],
        src_port: be16(tcp),
        dst_port: be16(tcp + 2),
        seq: be32(tcp + 4),
        ack: be32(tcp + 8),
        flags,
        reset: bits & 4 != 0,
        window: be16(tcp + 14),
        payload: total.checked_sub(tcp + header)? as u32,
        ecn: match packet[1] & 3 {
            0 => Ecn::NotEct,
            3 => Ecn::Ce,
            _ => Ecn::Ect0,
        },
        tcp,
    })
}

/// What the option of a kind has behind its kind and length (RFC 9293 section 3.2), where it is there whole.
fn option<'a>(packet: &'a [u8], s: &Segment, kind: u8) -> Option<&'a [u8]> {
    let end = (s.tcp + usize::from(packet[s.tcp + 12] >> 4) * 4).min(packet.len());
    let mut at = s.tcp + 20;
    while at + 1 < end && packet[at] != 0 {
        let len = if packet[at] == 1 { 1 } else { usize::from(packet[at + 1]).max(2) };
        if packet[at] == kind && kind != 1 {
            return packet.get(at + 2..at + len);
        }
        at += len;
    }
    None
}

/// The window scale option of a SYN (RFC 7323 section 2); 0 without one.
pub fn window_scale(packet: &[u8], s: &Segment) -> u8 {
    option(packet, s, 3).and_then(|shift| shift.first()).map_or(0, |shift| (*shift).min(14))
}

/// It has the SACK option (RFC 2018 section 3): something has arrived out of order, or twice.
pub fn has_sack(packet: &[u8], s: &Segment) -> bool {
    option(packet, s, 5).is_some()
}

/// Changes the 16-bit word at an even offset and repairs the checksum at `checksum` (RFC 1624, eq. 3).
fn replace_word(packet: &mut [u8], at: usize, value: u16, checksum: usize) {
    let word = |p: &[u8], i: usize| u32::from(u16::from_be_bytes([p[i], p[i + 1]]));
    // HC' = ~(~HC + ~m + m')
    let mut sum = (!word(packet, checksum) & 0xffff) + (!word(packet, at) & 0xffff) + u32::from(value);
    sum = (sum & 0xffff) + (sum >> 16);
    sum = (sum & 0xffff) + (sum >> 16);
    packet[at..at + 2].copy_from_slice(&value.to_be_bytes());
    packet[checksum..checksum + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Sets Congestion Experienced (RFC 3168 section 5) and repairs the IP checksum.
pub fn set_ce(packet: &mut [u8]) {
    let word = u16::from_be_bytes([packet[0], packet[1]]) | 3;
    replace_word(packet, 0, word, 10);
}

/// Replaces the window field and repairs the TCP checksum.
pub fn set_window(packet: &mut [u8], s: &Segment, window: u16) {
    replace_word(packet, s.tcp + 14, window, s.tcp + 16);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A SYN with MSS, window scale 7 and its checksums, put together by hand.
    fn syn() -> Vec<u8> {
        let mut p = vec![
            0x45, 0x02, 0, 48, 0, 1, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, //
            0x27, 0x10, 0x13, 0x89, 0, 0, 0, 9, 0, 0, 0, 0, 0x70, 0xc2, 0xff, 0xff, 0, 0, 0, 0, //
            2, 4, 5, 0xb4, 1, 3, 3, 7,
        ];
        let ip = checksum(&p[..20], 0);
        p[10..12].copy_from_slice(&ip.to_be_bytes());
        let tcp = checksum(&p[20..], pseudo(&p));
        p[36..38].copy_from_slice(&tcp.to_be_bytes());
        p
    }
    /// RFC 1071, in the plain way.
    fn checksum(bytes: &[u8], start: u32) -> u16 {
        let mut sum = start;
        for pair in bytes.chunks(2) {
            sum += u32::from(u16::from_be_bytes([pair[0], *pair.get(1).unwrap_or(&0)]));
        }
        while sum > 0xffff {
            sum = (sum & 0xffff) + (sum >> 16);
        }
        !(sum as u16)
    }
    fn pseudo(p: &[u8]) -> u32 {
        let words = [12, 14, 16, 18].map(|i| u32::from(u16::from_be_bytes([p[i], p[i + 1]])));
        words.iter().sum::<u32>() + 6 + (p.len() as u32 - 20)
    }

    #[test]
    fn fields_are_where_the_rfcs_put_them() {
        let p = syn();
        let s = parse(&p).unwrap();
        assert_eq!((s.src, s.dst, s.src_port, s.dst_port), ([10, 0, 0, 1], [10, 0, 0, 2], 10_000, 5001));
        assert_eq!((s.seq, s.payload, s.ecn, s.window), (9, 0, Ecn::Ect0, 0xffff));
        assert_eq!(s.flags, flag::SYN | flag::ECE | flag::CWR);
        assert_eq!(window_scale(&p, &s), 7);
    }
    #[test]
    fn checksums_stay_right_after_a_mark_and_a_new_window() {
        let mut p = syn();
        let s = parse(&p).unwrap();
        set_ce(&mut p);
        set_window(&mut p, &s, 0x1234);
        assert_eq!(parse(&p).unwrap().ecn, Ecn::Ce);
        assert_eq!(parse(&p).unwrap().window, 0x1234);
        assert_eq!(checksum(&p[..20], 0), 0);
        assert_eq!(checksum(&p[20..], pseudo(&p)), 0);
    }
    #[test]
    fn what_is_not_tcp_is_refused() {
        let mut p = syn();
        assert!(parse(&p[..30]).is_none());
        p[9] = 17;
        assert!(parse(&p).is_none());
    }
}
