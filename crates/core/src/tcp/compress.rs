//! Compressed TCP/IP headers: only what changed since the connection's previous packet is sent.

use super::config::IP_TCP_HEADER;

/// Change mask, connection number and TCP checksum. The number is always counted: on a link that several
/// connections share, the next packet is rarely the same connection's (RFC 1144 section 3.2.2).
const BASE: u32 = 1 + 1 + 2;

/// Most bytes that compression takes off a data segment with a header of `header` bytes, and off an acknowledgement, which always sends the
/// advance of its number.
pub fn most_saved(header: u32) -> (u32, u32) {
    let saved = header.min(IP_TCP_HEADER);
    (saved.saturating_sub(BASE), saved.saturating_sub(BASE + 1))
}

/// The length of each header after compression as in RFC 1144, for one direction of a connection.
///
/// Every link is taken to compress for itself, so that a packet dropped in a queue never separates
/// compressor and decompressor, and the queue holds packets in their compressed length.
#[derive(Clone, Debug, Default)]
pub struct HeaderCompressor {
    /// Sequence (data) or acknowledgement number and payload of the previous packet; `None` before it.
    last: Option<(u64, u32)>,
    window: u32,
}

impl HeaderCompressor {
    /// Header bytes saved on a data segment; `flags` other than ACK (`irregular`) are sent in full.
    pub fn saved_on_data(&mut self, seq: u64, payload: u32, irregular: bool) -> u32 {
        let last = self.last.replace((seq, payload));
        let Some((last_seq, last_payload)) = last.filter(|_| !irregular) else { return 0 };
        // RFC 1144 section 3.2.3: a sequence number that goes back (a retransmission) is not compressed. The usual
        // advance, by the data of the previous packet, is the special case of one-way data and needs no field.
        match seq.checked_sub(last_seq) {
            None | Some(0) => 0,
            Some(delta) if delta == last_payload as u64 => IP_TCP_HEADER - BASE,
            Some(delta) => IP_TCP_HEADER.saturating_sub(BASE + field(delta)),
        }
    }
    /// Header bytes saved on a pure ACK that advertises `window`.
    pub fn saved_on_ack(&mut self, ack: u64, window: u32, irregular: bool) -> u32 {
        let last = self.last.replace((ack, 0));
        let window_before = core::mem::replace(&mut self.window, window);
        let Some((last_ack, _)) = last.filter(|_| !irregular) else { return 0 };
        let Some(delta) = ack.checked_sub(last_ack) else { return 0 };
        let mut len = BASE;
        if window != window_before {
            // RFC 1144 section 3.2.2: the change modulo 2^16, in one octet when it is 1..255.
            len += field(window.wrapping_sub(window_before) as u64 & 0xFFFF);
        } else if delta == 0 {
            // RFC 1144 section 3.2.3: nothing changed, so that it must be a repetition: sent in full.
            return 0;
        }
        if delta > 0 {
            len += field(delta);
        }
        IP_TCP_HEADER.saturating_sub(len)
    }
}

/// Length of a changed field: one octet, or a zero and two octets (RFC 1144 section 3.2.2). A change that
/// does not fit makes the packet travel uncompressed.
fn field(delta: u64) -> u32 {
    match delta {
        1..=255 => 1,
        0..=0xFFFF => 3,
        _ => IP_TCP_HEADER,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bulk_data_travels_in_four_bytes() {
        let mut c = HeaderCompressor::default();
        // The first packet sets up the connection's state and goes in full.
        assert_eq!(c.saved_on_data(0, 50, false), 0);
        assert_eq!(c.saved_on_data(50, 50, false), 36);
        assert_eq!(c.saved_on_data(100, 20, false), 36);
        // A gap of one small or one large field, then a retransmission in full, then a jump over what was sent.
        assert_eq!(c.saved_on_data(320, 50, false), 35);
        assert_eq!(c.saved_on_data(1320, 50, false), 33);
        assert_eq!(c.saved_on_data(120, 50, false), 0);
        assert_eq!(c.saved_on_data(120, 50, false), 0);
        assert_eq!(c.saved_on_data(1370, 50, false), 33);
        assert_eq!(c.saved_on_data(1420, 50, false), 36);
        // Beyond 16 bits, or with FIN: in full.
        assert_eq!(c.saved_on_data(100_000, 50, false), 0);
        assert_eq!(c.saved_on_data(100_050, 50, true), 0);
    }

    #[test]
    fn acknowledgements_send_what_changed_and_duplicates_go_in_full() {
        let mut c = HeaderCompressor::default();
        assert_eq!(c.saved_on_ack(50, 1000, false), 0);
        assert_eq!(c.saved_on_ack(100, 1000, false), 35);
        assert_eq!(c.saved_on_ack(1100, 1000, false), 33);
        assert_eq!(c.saved_on_ack(1100, 1000, false), 0);
        assert_eq!(c.saved_on_ack(1150, 1040, false), 34);
        // A window that shrinks is a change modulo 2^16: two octets.
        assert_eq!(c.saved_on_ack(1150, 1000, false), 33);
        assert_eq!(c.saved_on_ack(1200, 1000, true), 0);
    }
}
