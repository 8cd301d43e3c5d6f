//! The keys of a live run's quality that come in rows, each row in the order in which `run` notes its values.

use penstock_core::Quantity;
use penstock_sim::summary_keys as key;

pub static WAKE: [&Quantity; 21] = [
    &key::WAKE_P10_S,
    &key::WAKE_P25_S,
    &key::WAKE_P50_S,
    &key::WAKE_P75_S,
    &key::WAKE_P90_S,
    &key::WAKE_P95_S,
    &key::WAKE_P99_S,
    &key::WAKE_P995_S,
    &key::WAKE_P999_S,
    &key::WAKE_1_S,
    &key::WAKE_2_S,
    &key::WAKE_3_S,
    &key::WAKE_4_S,
    &key::WAKE_5_S,
    &key::WAKE_6_S,
    &key::WAKE_8_S,
    &key::WAKE_10_S,
    &key::WAKE_12_S,
    &key::WAKE_16_S,
    &key::WAKE_24_S,
    &key::WAKE_32_S,
];
pub static APPLICATION_LAG: [&Quantity; 21] = [
    &key::APPLICATION_LAG_P10_S,
    &key::APPLICATION_LAG_P25_S,
    &key::APPLICATION_LAG_P50_S,
    &key::APPLICATION_LAG_P75_S,
    &key::APPLICATION_LAG_P90_S,
    &key::APPLICATION_LAG_P95_S,
    &key::APPLICATION_LAG_P99_S,
    &key::APPLICATION_LAG_P995_S,
    &key::APPLICATION_LAG_P999_S,
    &key::APPLICATION_LAG_1_S,
    &key::APPLICATION_LAG_2_S,
    &key::APPLICATION_LAG_3_S,
    &key::APPLICATION_LAG_4_S,
    &key::APPLICATION_LAG_5_S,
    &key::APPLICATION_LAG_6_S,
    &key::APPLICATION_LAG_8_S,
    &key::APPLICATION_LAG_10_S,
    &key::APPLICATION_LAG_12_S,
    &key::APPLICATION_LAG_16_S,
    &key::APPLICATION_LAG_24_S,
    &key::APPLICATION_LAG_32_S,
];
pub static DATA_HANDOVER: [&Quantity; 7] = [
    &key::DATA_HANDOVER_P1_S,
    &key::DATA_HANDOVER_P10_S,
    &key::DATA_HANDOVER_P25_S,
    &key::DATA_HANDOVER_P50_S,
    &key::DATA_HANDOVER_P75_S,
    &key::DATA_HANDOVER_P90_S,
    &key::DATA_HANDOVER_P99_S,
];
pub static ACK_HANDOVER: [&Quantity; 7] = [
    &key::ACK_HANDOVER_P1_S,
    &key::ACK_HANDOVER_P10_S,
    &key::ACK_HANDOVER_P25_S,
    &key::ACK_HANDOVER_P50_S,
    &key::ACK_HANDOVER_P75_S,
    &key::ACK_HANDOVER_P90_S,
    &key::ACK_HANDOVER_P99_S,
];
pub static RECEIVER_TURN: [&Quantity; 7] = [
    &key::RECEIVER_TURN_P1_S,
    &key::RECEIVER_TURN_P10_S,
    &key::RECEIVER_TURN_P25_S,
    &key::RECEIVER_TURN_P50_S,
    &key::RECEIVER_TURN_P75_S,
    &key::RECEIVER_TURN_P90_S,
    &key::RECEIVER_TURN_P99_S,
];
pub static DUPACK_TURN: [&Quantity; 7] = [
    &key::DUPACK_TURN_P1_S,
    &key::DUPACK_TURN_P10_S,
    &key::DUPACK_TURN_P25_S,
    &key::DUPACK_TURN_P50_S,
    &key::DUPACK_TURN_P75_S,
    &key::DUPACK_TURN_P90_S,
    &key::DUPACK_TURN_P99_S,
];
pub static SENDER_TURN: [&Quantity; 7] = [
    &key::SENDER_TURN_P1_S,
    &key::SENDER_TURN_P10_S,
    &key::SENDER_TURN_P25_S,
    &key::SENDER_TURN_P50_S,
    &key::SENDER_TURN_P75_S,
    &key::SENDER_TURN_P90_S,
    &key::SENDER_TURN_P99_S,
];
/// How late the applications' thread comes to a write.
pub static WRITE_LAG: [&Quantity; 7] = [
    &key::WRITE_LAG_P1_S,
    &key::WRITE_LAG_P10_S,
    &key::WRITE_LAG_P25_S,
    &key::WRITE_LAG_P50_S,
    &key::WRITE_LAG_P75_S,
    &key::WRITE_LAG_P90_S,
    &key::WRITE_LAG_P99_S,
];
/// How long a write keeps it.
pub static WRITE_TIME: [&Quantity; 7] = [
    &key::WRITE_TIME_P1_S,
    &key::WRITE_TIME_P10_S,
    &key::WRITE_TIME_P25_S,
    &key::WRITE_TIME_P50_S,
    &key::WRITE_TIME_P75_S,
    &key::WRITE_TIME_P90_S,
    &key::WRITE_TIME_P99_S,
];
/// From its beginning to the packet that leaves by it.
pub static WRITE_TURN: [&Quantity; 7] = [
    &key::WRITE_TURN_P1_S,
    &key::WRITE_TURN_P10_S,
    &key::WRITE_TURN_P25_S,
    &key::WRITE_TURN_P50_S,
    &key::WRITE_TURN_P75_S,
    &key::WRITE_TURN_P90_S,
    &key::WRITE_TURN_P99_S,
];
pub static APPLICATION_TURN: [&Quantity; 7] = [
    &key::APPLICATION_TURN_P1_S,
    &key::APPLICATION_TURN_P10_S,
    &key::APPLICATION_TURN_P25_S,
    &key::APPLICATION_TURN_P50_S,
    &key::APPLICATION_TURN_P75_S,
    &key::APPLICATION_TURN_P90_S,
    &key::APPLICATION_TURN_P99_S,
];
pub static RECEIVER_LASTS: [&Quantity; 3] =
    [&key::RECEIVER_TURN_NEAR, &key::RECEIVER_TURN_FAR, &key::RECEIVER_TURN_PACKETS];
pub static DUPACK_LASTS: [&Quantity; 3] =
    [&key::DUPACK_TURN_NEAR, &key::DUPACK_TURN_FAR, &key::DUPACK_TURN_PACKETS];
pub static SENDER_LASTS: [&Quantity; 3] =
    [&key::SENDER_TURN_NEAR, &key::SENDER_TURN_FAR, &key::SENDER_TURN_PACKETS];
pub static PAUSES: [[&Quantity; 2]; 4] = [
    [&key::WAKE_PAUSES_1MS, &key::WAKE_PAUSES_1MS_SENT],
    [&key::WAKE_PAUSES_2MS, &key::WAKE_PAUSES_2MS_SENT],
    [&key::WAKE_PAUSES_4MS, &key::WAKE_PAUSES_4MS_SENT],
    [&key::WAKE_PAUSES_8MS, &key::WAKE_PAUSES_8MS_SENT],
];
