//! What a run consists of, as plain data: network, options of ports and switches, and [`setup::Setup`], which holds all of it.

pub mod bottleneck;
pub mod checkpoint;
pub mod defaults;
pub mod fabric_options;
pub mod folder;
pub mod ideal;
pub mod setup;
pub mod sharing;
pub mod topology;
