//! `/v1/instances` and `/v1/partitions`: the processes that run messages, for admins.

use axum::extract::State;
use jiff::Timestamp;
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use windrow_domain::InstanceId;
use windrow_store::member::Member;
use windrow_store::partition::Partition;

use super::body::shown;
use super::params::into_api_error;
use crate::app::App;
use crate::auth::Caller;
use crate::error::Result;
use crate::openapi::error_responses::NotFound;

/// Instances that are listed: those that joined last.
const INSTANCES_MAX: usize = 1_000;

/// All rows, without pages.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = All)]
pub(crate) struct All<T> {
    data: Vec<T>,
}

/// A process that runs messages.
#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct Instance {
    #[schema(value_type = String, format = "uuid")]
    id: InstanceId,
    service: String,
    host: String,
    pid: u32,
    /// What it reports about itself.
    #[schema(value_type = Option<serde_json::Value>)]
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<Box<RawValue>>,
    #[schema(value_type = String, format = DateTime)]
    joined_at: Timestamp,
    #[schema(value_type = String, format = DateTime)]
    heartbeat_at: Timestamp,
    /// When it left or was declared dead.
    #[schema(value_type = Option<String>, format = DateTime, required)]
    tombstoned_at: Option<Timestamp>,
}

impl From<Member> for Instance {
    fn from(member: Member) -> Self {
        Self {
            id: member.instance,
            service: member.service,
            host: member.host,
            pid: member.pid,
            metadata: shown(member.metadata.as_bytes()).0,
            joined_at: member.joined_at,
            heartbeat_at: member.heartbeat_at,
            tombstoned_at: member.tombstoned_at,
        }
    }
}

/// A share of all streams, which one instance at a time runs.
#[derive(Debug, Serialize, ToSchema)]
#[schema(as = Partition)]
pub(crate) struct PartitionObject {
    no: u16,
    /// How often it changed its owner.
    epoch: u64,
    /// The instance that owns it; null when it is free.
    #[schema(value_type = Option<String>, format = "uuid", required)]
    instance: Option<InstanceId>,
    /// Whether that instance is alive.
    live: bool,
    /// Whether its last owner died, so that its streams are checked one by one.
    suspect: bool,
    #[schema(value_type = Option<String>, format = DateTime, required)]
    taken_at: Option<Timestamp>,
}

impl From<Partition> for PartitionObject {
    fn from(partition: Partition) -> Self {
        Self {
            no: partition.no,
            epoch: partition.epoch,
            instance: partition.instance,
            live: partition.is_owner_live,
            suspect: partition.is_suspect,
            taken_at: partition.taken_at,
        }
    }
}

/// Lists instances
///
/// For admins. Those that joined last, the ones that left included, by the time they joined.
#[utoipa::path(
    get, path = "/instances", operation_id = "listInstances", tag = "Instances", security(("key" = [])),
    responses((status = 200, description = "The instances.", body = All<Instance>), NotFound))]
pub(crate) async fn instances(
    State(app): State<App>,
    caller: Caller,
) -> Result<axum::Json<All<Instance>>> {
    caller.check_admin()?;
    let members = app.messages()?.message_store().members().await.map_err(into_api_error)?;
    let passed_over = members.len().saturating_sub(INSTANCES_MAX);
    let data = members.into_iter().skip(passed_over).map(Instance::from).collect();
    Ok(axum::Json(All { data }))
}

/// Lists partitions
///
/// For admins. By number; none before messages are set up.
#[utoipa::path(
    get, path = "/partitions", operation_id = "listPartitions", tag = "Instances",
    security(("key" = [])),
    responses((status = 200, description = "All partitions.", body = All<PartitionObject>), NotFound))]
pub(crate) async fn partitions(
    State(app): State<App>,
    caller: Caller,
) -> Result<axum::Json<All<PartitionObject>>> {
    caller.check_admin()?;
    let partitions = app.messages()?.message_store().partitions().await.map_err(into_api_error)?;
    Ok(axum::Json(All { data: partitions.into_iter().map(PartitionObject::from).collect() }))
}
