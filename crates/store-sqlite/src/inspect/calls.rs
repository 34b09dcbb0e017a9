//! Calls, newest first.

use rusqlite::params_from_iter;
use windrow_domain::CallState;
use windrow_store::call::{Call, CallsQuery};
use windrow_store::inspect::{Binding, Cursor, Page};
use windrow_store::{Result, Scope};

use super::Where;
use crate::call::read_call;
use crate::rows;
use crate::tx::Tx;

/// The columns of `call/call`.
const COLUMNS: &str = "owner, request_id, object_type, object_id, method, args, state, policy, reply, \
     error, retry_count, instance, caller_object, caller_client, created_at, updated_at, processed_at, \
     expires_at, 0";

pub(crate) fn page(tx: &Tx<'_>, scope: &Scope, query: &CallsQuery) -> Result<Page<Call>> {
    let filters = (&query.object, &query.states, query.instance, query.stuck_ms);
    let binding = Binding::new("calls", scope, &filters);
    let after: Option<(i64, String, String)> = Cursor::open(&binding, query.after.as_deref())?;
    let mut filter = Where::default();
    filter.maybe("owner = ?", scope.owner().map(str::to_owned));
    if let Some((object_type, object_id)) = query.object.clone() {
        let object: [Box<dyn rusqlite::ToSql>; 2] = [Box::new(object_type), Box::new(object_id)];
        filter.and("object_type = ? AND object_id = ?", object.into());
    }
    filter.maybe("instance = ?", query.instance.map(|instance| instance.0.into_bytes()));
    filter.any("state", query.states.iter().map(|state| state.code()).collect());
    if let Some(ms) = query.stuck_ms {
        let since = tx.now.saturating_sub(rows::int(ms.saturating_mul(1000)));
        filter.and("state = 1 AND updated_at <= ?", vec![Box::new(since)]);
    }
    if let Some((at, owner, id)) = after {
        let behind: [Box<dyn rusqlite::ToSql>; 3] = [Box::new(at), Box::new(owner), Box::new(id)];
        filter.and("(created_at, owner, request_id) < (?, ?, ?)", behind.into());
    }
    let is_rare = is_rare(query);
    let text = format!(
        "SELECT /* inspect/calls */ {COLUMNS} FROM calls {} WHERE {}{} \
         ORDER BY created_at DESC, owner DESC, request_id DESC LIMIT {}",
        if is_rare { "INDEXED BY calls_by_state" } else { "" },
        if is_rare { "state <> 2" } else { "true" },
        filter.text,
        query.limit + 1
    );
    let rows = tx.all(&text, params_from_iter(filter.values), read_call)?;
    Ok(super::page(rows, query.limit, &binding, |call: &Call| {
        let (owner, id) = (call.key.owner.as_str(), call.key.request_id.as_str());
        (call.created_at.as_microsecond(), owner.to_owned(), id.to_owned())
    }))
}

/// Whether no completed calls are asked for and nothing else narrows them: few among many, which an index
/// of their own finds.
fn is_rare(query: &CallsQuery) -> bool {
    let states = !query.states.is_empty() && !query.states.contains(&CallState::Completed);
    (states || query.stuck_ms.is_some()) && query.object.is_none() && query.instance.is_none()
}
