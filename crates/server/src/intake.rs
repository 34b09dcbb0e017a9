//! Intake: a file that a caller sends, as a form or as it is, goes straight into the store.
//!
//! Holds throughout: of the file only a few blocks are in memory; whatever goes wrong on the way,
//! nothing of it is visible; a client that falls silent or drips is cut off.

use std::io;

use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Number;
use tokio::sync::{mpsc, oneshot};
use tokio_util::io::StreamReader;
use tracing::Instrument as _;
use utoipa::ToSchema;
use windrow_domain::FileId;
use windrow_engine::ingest::{self, Ingested, ingest_by};
use windrow_store::ingest::NewFile;
use windrow_store::{Ingest, Scope};

use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, Result};
pub(crate) use crate::form::PARTS_MAX;
use crate::form::{self, Begun, Form, Piece};
use crate::parts::Parts;
use crate::patience::Patience;

/// Pieces that wait to be stored.
const PIECES_WAITING_MAX: usize = 1;
/// Longest name of a file.
const NAME_BYTES_MAX: usize = 255;
/// What a file may live, in seconds.
const LIFE_SECS: std::ops::RangeInclusive<u64> = 3600..=2_592_000;
/// What files are for.
pub(crate) const PURPOSE: &str = "batch";

/// How long something lives after it was made.
#[derive(Clone, Debug, Deserialize, ToSchema)]
pub(crate) struct ExpiresAfter {
    #[schema(value_type = Anchor, inline)]
    anchor: String,
    #[schema(minimum = 3600, maximum = 2592000)]
    #[serde(deserialize_with = "whole")]
    seconds: u64,
}

/// From when a life is counted.
#[derive(ToSchema)]
#[schema(rename_all = "snake_case")]
#[expect(dead_code, reason = "it is read as text, to name it in errors; here it is only described")]
pub(crate) enum Anchor {
    CreatedAt,
}

/// A whole number, also as `3600.0`: JSON knows only one kind.
fn whole<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let number = Number::deserialize(from)?;
    let float = || number.as_f64().filter(|float| float.fract() == 0.0 && *float >= 0.0);
    // Beyond what a life may be it does not matter by how much.
    let bounded = |float: f64| format!("{:.0}", float.min(1e15)).parse().ok();
    let read = number.as_u64().or_else(|| float().and_then(bounded));
    read.ok_or_else(|| D::Error::custom("it must be a whole number of seconds"))
}

impl ExpiresAfter {
    pub(crate) fn new(anchor: &str, seconds: u64) -> Self {
        Self { anchor: anchor.to_owned(), seconds }
    }

    /// The seconds, when it is as the contract has it. `param` names it in errors.
    pub(crate) fn secs(&self, param: &str) -> Result<u64> {
        if self.anchor != "created_at" {
            let message = format!("`{param}[anchor]` must be `created_at`.");
            return Err(Error::invalid(format!("{param}[anchor]"), message));
        }
        if !LIFE_SECS.contains(&self.seconds) {
            let (least, most) = (LIFE_SECS.start(), LIFE_SECS.end());
            let message = format!("`{param}[seconds]` must be between {least} and {most}.");
            return Err(Error::invalid(format!("{param}[seconds]"), message));
        }
        Ok(self.seconds)
    }
}

/// Where lines go: the store, or something before it.
pub(crate) type Into<'a> = dyn Ingest + Sync + 'a;

/// What a file is called, and how long it lives.
pub(crate) struct Named<'a> {
    pub(crate) id: FileId,
    pub(crate) name: Option<&'a str>,
    pub(crate) life_secs: u64,
}

/// What a form must say beside its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is for batches, in its own words.
    Said,
    /// The call says it.
    Known,
}

/// Takes in the part `file` of a form. The other parts may come before it or after it: others see
/// the file when the form was read to its end and is right, and not before.
pub(crate) async fn receive(
    app: &App,
    into: &Into<'_>,
    caller: &Caller,
    parts: Parts,
    purpose: Purpose,
) -> Result<Ingested> {
    let form = match purpose {
        Purpose::Said => Form::default(),
        Purpose::Known => Form::for_purpose(PURPOSE),
    };
    let (begins, begun) = oneshot::channel();
    let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
    let reading = form::Reader::new(form, begins, sender).read(parts);
    let storing = store(app, into, caller, purpose, begun, pieces);
    tokio::pin!(reading, storing);
    let stored = tokio::select! {
        biased;
        read = &mut reading => match (read, storing.await) {
            // What came in was given up, for what is wrong with the form.
            (Err(Some(error)), _) => return Err(error),
            (_, stored) => stored,
        },
        // It ends first when it will not have the file: nobody waits for the rest.
        stored = &mut storing => stored,
    };
    stored.unwrap_or_else(|| Err(Error::invalid("file", "The form has no part `file`.")))
}

/// Stores a file once it begins, as its pieces come; none when no file comes.
async fn store(
    app: &App,
    into: &Into<'_>,
    caller: &Caller,
    purpose: Purpose,
    begun: oneshot::Receiver<Begun>,
    mut pieces: mpsc::Receiver<io::Result<Piece>>,
) -> Option<Result<Ingested>> {
    let Begun { name, life_secs } = begun.await.ok()?;
    let (id, life_secs) = (FileId::new(), life_secs.unwrap_or(app.options.file_secs));
    let pieces = stream::poll_fn(move |context| pieces.poll_recv(context));
    let bytes = pieces.then(move |piece| async move {
        match piece? {
            Piece::Bytes(bytes) => Ok(bytes),
            Piece::Life(secs) => {
                let end = after(app.clock.now(), secs).map_err(|_| io::ErrorKind::InvalidData)?;
                app.store.expire_file(id, end).await.map_err(io::Error::other)?;
                Ok(Bytes::new())
            }
        }
    });
    let named = Named { id, name: name.as_deref(), life_secs };
    Some(take_in(app, into, caller, purpose, named, bytes).await)
}

/// What was stored already vanishes again.
pub(crate) async fn give_up(
    app: &App,
    caller: &Caller,
    stored: Option<Ingested>,
    error: Error,
) -> Error {
    if let Some(ingested) = stored {
        let scope = Scope::Owner(caller.owner.clone());
        if let Err(cause) = app.store.drop_file(&scope, ingested.file.id).await {
            tracing::warn!(file.id = %ingested.file.id, error = %cause, "upload not taken back");
        }
    }
    error
}

/// Takes in bytes as they come.
pub(crate) async fn take_in(
    app: &App,
    into: &Into<'_>,
    caller: &Caller,
    purpose: Purpose,
    named: Named<'_>,
    bytes: impl Stream<Item = io::Result<Bytes>> + Send,
) -> Result<Ingested> {
    let file = NewFile {
        id: named.id,
        owner: caller.owner.clone(),
        name: shown_name(named.name)?,
        purpose: PURPOSE.to_owned(),
        expires_at: Some(after(app.clock.now(), named.life_secs)?),
    };
    let options = ingest::Options {
        file_bytes_max: app.options.upload_bytes_max,
        // The contract of those who say it knows no other method.
        only_post: purpose == Purpose::Said,
        ..app.ingest.clone()
    };
    let patience = Patience::new(app.clock.clone(), &app.options);
    let reader = StreamReader::new(patience.watch(bytes));
    let began = app.clock.elapsed();
    let span = tracing::info_span!("ingest", file.id = %file.id);
    let ingesting = ingest_by(&app.clock, into, reader, file, options);
    let ingested = ingesting.instrument(span).await;
    let ingested = ingested.map_err(refused)?;
    app.metrics.ingested(app.clock.elapsed().saturating_sub(began));
    let file = &ingested.file;
    tracing::info!(
        file.id = %file.id, owner = %caller.owner, bytes = file.bytes, lines = file.lines,
        errors = ingested.errors_total, "file taken in"
    );
    Ok(ingested)
}

/// The error of a file that could not be taken in.
fn refused(error: ingest::Error) -> Error {
    match error {
        ingest::Error::TooLarge { bytes_max, .. } => Error::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            "file_too_large",
            format!("A file has at most {bytes_max} bytes; split it into several."),
        ),
        ingest::Error::Read { source, .. } if source.kind() == io::ErrorKind::TimedOut => {
            too_slow()
        }
        ingest::Error::Read { after_line, source } => match source.downcast() {
            Ok(store_error) => windrow_store::Error::into(store_error),
            Err(_) => Error::new(
                StatusCode::BAD_REQUEST,
                "upload_broken",
                format!("The upload broke off after line {after_line}; nothing of it is kept."),
            ),
        },
        ingest::Error::Store { source, .. } => source.into(),
        ingest::Error::Spill { .. } => Error::internal(windrow_store::error::chain(&error)),
    }
}

/// The error of an upload that does not go on.
pub(crate) fn too_slow() -> Error {
    let message = "The upload fell silent or was too slow; nothing of it is kept.";
    Error::new(StatusCode::REQUEST_TIMEOUT, "upload_too_slow", message)
}

/// Whether a name that was given apart from the file can be one, also where the file brings its own.
pub(crate) fn check_name(given: &str) -> Result<()> {
    let fits = given.chars().count() <= NAME_BYTES_MAX && !given.contains('\0');
    shown_name(Some(if fits { given } else { "" })).map(drop)
}

/// A name that lists can show.
fn shown_name(given: Option<&str>) -> Result<String> {
    let name = given.unwrap_or("upload.jsonl");
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    match (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control) {
        true => Ok(name.to_owned()),
        false => Err(Error::invalid(
            "file",
            format!("The file's name must have 1 to {NAME_BYTES_MAX} plain bytes."),
        )),
    }
}

fn after(now: Timestamp, secs: u64) -> Result<Timestamp> {
    let life = SignedDuration::from_secs(secs.try_into().unwrap_or(i64::MAX));
    now.checked_add(life).map_err(Error::internal)
}
