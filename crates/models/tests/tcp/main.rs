//! TCP clause by clause: state before, event, state after. The section of the RFC is in the name of each test.

mod ack_record;
mod endtoend;
mod linux;
mod offload;
mod receiver;
mod rfc3042;
mod rfc3168;
mod rfc5681;
mod rfc6298;
mod rfc6582;
mod rfc6675;
mod rfc8257;
mod rfc8985;
mod rfc9293_fin;
mod rfc9293_window;
mod rfc9438;
mod rig;
mod roles;
