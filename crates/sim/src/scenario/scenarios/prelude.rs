//! Names that most scenarios need.

pub use crate::scenario::profiles::*;
pub use crate::scenario::{requests_travel, Common, RunId, Scenario};
pub use crate::setup::Setup;
pub use crate::topology::{LinkSpec, Topology};
pub use crate::workloads::{FlowRequest, Workload};
pub use penstock_core::rng::Entity;
pub use penstock_core::{bail_if, param, ParamError, ParamSpec, Params, Stream};
pub use penstock_units::{Dur, Rate, Time};
