//! A row becomes one request by the recipe of its job, and the answer becomes columns.
//!
//! Holds throughout: a row never chooses the host, the key or a header that its upstream does not allow to
//! recipes; what the upstream's key is never reaches a column; a status that the recipe says nothing about is
//! judged as that of any other request.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use reqwest::header::{HeaderName, HeaderValue};
use reqwest::{Method, Request};
use windrow_domain::attempt::{Class, Failure};
use windrow_domain::strategy::UNACCEPTABLE;
use windrow_recipe::{Answer, Cell, Judgement, Request as Rendered, Row, RowFault};

use super::request::{self, refusal};
use super::route::UpstreamRoute;
use super::send::send;
use super::{HttpExecutor, classify, no_route};
use crate::execute::{Attempt, Outcome, RowTask, Verdict};
use crate::output::reported_usage;

/// How long a row waits whose upstream says that it is busy, at least.
const BUSY_WAIT: Duration = Duration::from_secs(1);

impl HttpExecutor {
    /// Makes one attempt of a row.
    pub(super) async fn try_row(&self, attempt: &Attempt, task: &RowTask) -> Outcome {
        let cells = match task.job.cells(&attempt.raw) {
            Ok(cells) => cells,
            Err(error) => return unsent(Failure::permanent(error.code, error.message)),
        };
        let row =
            Row { columns: &task.job.columns, cells: &cells, number: attempt.line, image: None };
        let recipe = &task.job.recipe;
        let outcome = match recipe.skip(&row) {
            Ok(Some(reason)) => Outcome::skipped(reason),
            Ok(None) => self.ask(attempt, task, &row).await,
            Err(fault) => unsent(permanent(fault)),
        };
        let label = recipe.input().id.as_deref().and_then(|id| row.cell(id));
        let label = label.filter(|cell| !matches!(cell, Cell::Empty)).map(Cell::to_string);
        Outcome { custom_id: label, normalised: recipe.normalised(&row), ..outcome }
    }

    async fn ask(&self, attempt: &Attempt, task: &RowTask, row: &Row<'_>) -> Outcome {
        let Some(route) = self.route(&attempt.upstream, &attempt.target) else {
            return unsent(no_route(attempt));
        };
        let strategy = task.strategy();
        let rendered = match task.job.recipe.render(row, strategy) {
            Ok(rendered) => rendered,
            Err(fault) => return unsent(permanent(fault)),
        };
        let (head, body) = match build(route, attempt, rendered) {
            Ok(built) => built,
            Err(failure) => return unsent(failure),
        };
        if !attempt.gate.is_open() {
            return Outcome::withdrawn();
        }
        match send(route.client(), &route.bounds, &attempt.gate, head, body).await {
            Some(result) => {
                let outcome = classify::judge(route, self.clock.now(), result);
                judge(route, task, row, outcome)
            }
            None => Outcome::withdrawn(),
        }
    }
}

/// The request of a row: its head, and its body.
fn build(
    route: &UpstreamRoute,
    attempt: &Attempt,
    rendered: Rendered,
) -> Result<(Request, Option<Bytes>), Failure> {
    let method = Method::from_bytes(rendered.method.as_bytes())
        .map_err(|_| refusal("method_not_allowed", "Nothing was sent: no such method."))?;
    // Strategies take the place of an upstream's own variants.
    let (form, has_body) = (route.form(1), rendered.body.is_some());
    let mut request =
        request::head(route, form, (method, &rendered.path), attempt.key(), has_body)?;
    let headers = request.headers_mut();
    for (name, value) in &rendered.headers {
        if !route.recipe_headers.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            let message =
                format!("Nothing was sent: the upstream allows no header {name} to recipes.");
            return Err(refusal("header_not_allowed", message));
        }
        let bad =
            |_| refusal("row_invalid", format!("Nothing was sent: {name} cannot be a header."));
        let name = HeaderName::try_from(name).map_err(|_| bad(()))?;
        headers.insert(name, HeaderValue::try_from(value).map_err(|_| bad(()))?);
    }
    Ok((request, rendered.body.map(Bytes::from)))
}

/// What the recipe makes of an answer.
fn judge(route: &UpstreamRoute, task: &RowTask, row: &Row<'_>, outcome: Outcome) -> Outcome {
    let (Some(status), Some(body)) = (outcome.http_status, &outcome.body) else { return outcome };
    let body = route.redacted(body);
    let model = task.job.recipe.model();
    let price = model.and_then(|model| route.prices.get(model));
    let meta = reported_usage(&body).map(|usage| usage.meta(price)).unwrap_or_default();
    let answer = Answer { status, body: &body, meta };
    let judgement = task.job.recipe.judge(row, task.strategy(), &answer);
    let outcome = Outcome { body: Some(body.clone()), ..outcome };
    let failed = |class, code: &str, message: Cow<'_, str>| {
        let failure = Failure::new(class, code, message.into_owned());
        Outcome { verdict: Verdict::Failed(failure), ..outcome.clone() }
    };
    match judgement {
        Judgement::Unjudged => outcome,
        Judgement::Found { shaped, .. } => {
            let body = task.job.recipe.show().answer.then_some(body);
            let shaped = Some(shaped);
            Outcome { body, shaped, verdict: Verdict::Completed, ..outcome }
        }
        Judgement::Missed => {
            let name = task.job.recipe.strategy_name(task.strategy());
            failed(Class::NotFound, "not_found", format!("Nothing was found {name}.").into())
        }
        Judgement::Unacceptable(why) => failed(Class::Unacceptable, UNACCEPTABLE, why.into()),
        Judgement::Busy => {
            let mut failure =
                Failure::new(Class::Throttled, "busy", "The upstream says that it is busy.");
            failure.retry_after = Some(BUSY_WAIT);
            Outcome { verdict: Verdict::Failed(failure), ..outcome }
        }
    }
}

fn unsent(failure: Failure) -> Outcome {
    Outcome { reached: false, ..Outcome::failed(failure) }
}

fn permanent(fault: RowFault) -> Failure {
    Failure::permanent(fault.code, fault.message)
}
