//! Intake: a file that a caller sends, as a form or as it is, goes straight into the store.
//!
//! Holds throughout: of the file only a few blocks are in memory; whatever goes wrong on the way,
//! nothing of it is visible; a client that falls silent or drips is cut off.

use std::io;

use axum::extract::Multipart;
use axum::extract::multipart::{Field, MultipartError};
use axum::http::StatusCode;
use bytes::Bytes;
use futures_util::{Stream, TryStreamExt as _};
use jiff::{SignedDuration, Timestamp};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer};
use serde_json::Number;
use tokio::sync::SemaphorePermit;
use tokio_util::io::StreamReader;
use tracing::Instrument as _;
use utoipa::ToSchema;
use windrow_domain::FileId;
use windrow_engine::ingest::{self, Ingested, ingest_by};
use windrow_store::Scope;
use windrow_store::ingest::NewFile;

use crate::app::App;
use crate::auth::Caller;
use crate::error::{Error, Result};
use crate::patience::Patience;

/// Longest text of a part that is not the file.
const TEXT_BYTES_MAX: usize = 1024;
/// Most parts of a form.
pub(crate) const PARTS_MAX: usize = 16;
/// Longest name of a file.
const NAME_BYTES_MAX: usize = 255;
/// What a file may live, in seconds.
const LIFE_SECS: std::ops::RangeInclusive<u64> = 3600..=2_592_000;
const PURPOSE: &str = "batch";

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

/// What the parts before the file say.
#[derive(Debug, Default)]
struct Form {
    purpose: Option<String>,
    anchor: Option<String>,
    seconds: Option<String>,
}

/// What a form must say beside its file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// It is for batches, in its own words.
    Said,
    /// The call says it.
    Known,
}

/// The right to send a file, as long as it is held.
pub(crate) fn permit(app: &App) -> Result<SemaphorePermit<'_>> {
    app.uploads.try_acquire().map_err(|_| {
        let message = "As many uploads run as there may be; come again in a moment.";
        Error::new(StatusCode::TOO_MANY_REQUESTS, "uploads_exceeded", message).after_secs(2)
    })
}

/// Takes in the part `file` of a form.
pub(crate) async fn receive(
    app: &App,
    caller: &Caller,
    mut parts: Multipart,
    purpose: Purpose,
) -> Result<Ingested> {
    let mut form = match purpose {
        Purpose::Said => Form::default(),
        Purpose::Known => Form { purpose: Some(PURPOSE.to_owned()), ..Form::default() },
    };
    let mut stored: Option<Ingested> = None;
    for _ in 0..PARTS_MAX {
        let part = match parts.next_field().await {
            Ok(Some(part)) => part,
            Ok(None) => return finish(app, caller, &form, stored).await,
            Err(error) => return Err(give_up(app, caller, stored, broken(&error)).await),
        };
        let taken = match (part.name(), &stored) {
            (Some("file"), None) => {
                store(app, caller, &form, part).await.map(|new| stored = Some(new))
            }
            (Some("file"), Some(_)) => {
                Err(Error::invalid("file", "There is more than one `file`."))
            }
            (Some(_), _) => form.read(part, stored.is_some()).await,
            (None, _) => Err(Error::invalid("form", "A part of the form has no name.")),
        };
        if let Err(error) = taken {
            return Err(give_up(app, caller, stored, error).await);
        }
    }
    let error = Error::invalid("form", format!("A form has at most {PARTS_MAX} parts."));
    Err(give_up(app, caller, stored, error).await)
}

/// The form is whole. Without its purpose the file is not kept.
async fn finish(
    app: &App,
    caller: &Caller,
    form: &Form,
    stored: Option<Ingested>,
) -> Result<Ingested> {
    let Some(ingested) = stored else {
        return Err(Error::invalid("file", "The form has no part `file`."));
    };
    match form.check_purpose() {
        Ok(()) => Ok(ingested),
        Err(error) => Err(give_up(app, caller, Some(ingested), error).await),
    }
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

async fn store(app: &App, caller: &Caller, form: &Form, part: Field<'_>) -> Result<Ingested> {
    if form.purpose.is_some() {
        form.check_purpose()?;
    }
    let life_secs = form.life_secs()?.unwrap_or(app.options.file_secs);
    let name = part.file_name().map(str::to_owned);
    take_in(app, caller, name.as_deref(), life_secs, part.map_err(io::Error::other)).await
}

/// Takes in bytes as they come.
pub(crate) async fn take_in(
    app: &App,
    caller: &Caller,
    name: Option<&str>,
    life_secs: u64,
    bytes: impl Stream<Item = io::Result<Bytes>> + Send,
) -> Result<Ingested> {
    let file = NewFile {
        id: FileId::new(),
        owner: caller.owner.clone(),
        name: shown_name(name)?,
        purpose: PURPOSE.to_owned(),
        expires_at: Some(after(app.clock.now(), life_secs)?),
    };
    let options =
        ingest::Options { file_bytes_max: app.options.upload_bytes_max, ..app.ingest.clone() };
    let patience = Patience::new(app.clock.clone(), &app.options);
    let reader = StreamReader::new(patience.watch(bytes));
    let began = app.clock.elapsed();
    let span = tracing::info_span!("ingest", file.id = %file.id);
    let ingesting = ingest_by(&app.clock, &*app.store, reader, file, options);
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
        ingest::Error::Read { after_line, source } => match source.kind() {
            io::ErrorKind::TimedOut => Error::new(
                StatusCode::REQUEST_TIMEOUT,
                "upload_too_slow",
                format!("The upload fell silent or was too slow, after line {after_line}."),
            ),
            _ => Error::new(
                StatusCode::BAD_REQUEST,
                "upload_broken",
                format!("The upload broke off after line {after_line}; nothing of it is kept."),
            ),
        },
        ingest::Error::Store { source, .. } => source.into(),
        ingest::Error::Spill { .. } => Error::internal(windrow_engine::causes(&error)),
    }
}

fn broken(error: &MultipartError) -> Error {
    let message = match error.status() {
        StatusCode::PAYLOAD_TOO_LARGE => "The form is larger than it may be.",
        _ => "The form is broken, or was cut off; nothing of it is kept.",
    };
    Error::new(StatusCode::BAD_REQUEST, "invalid_form", message)
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

impl Form {
    /// Takes a part that is not the file. What decides how the file is stored must come before it.
    async fn read(&mut self, mut part: Field<'_>, after_file: bool) -> Result<()> {
        let name = part.name().unwrap_or_default().to_owned();
        let slot = match name.as_str() {
            "purpose" => &mut self.purpose,
            "expires_after[anchor]" => &mut self.anchor,
            "expires_after[seconds]" => &mut self.seconds,
            // A newer client may say more than we know.
            _ => &mut None,
        };
        if after_file && name.starts_with("expires_after") {
            return Err(Error::invalid(name, "It must come before the part `file`."));
        }
        let mut text = Vec::new();
        while let Some(piece) = part.chunk().await.map_err(|error| broken(&error))? {
            text.extend_from_slice(&piece);
            if text.len() > TEXT_BYTES_MAX {
                let message = format!("It has at most {TEXT_BYTES_MAX} bytes.");
                return Err(Error::invalid(shown(&name), message));
            }
        }
        let text = String::from_utf8(text)
            .map_err(|_| Error::invalid(shown(&name), "It is not UTF-8."))?;
        *slot = Some(text);
        Ok(())
    }

    fn check_purpose(&self) -> Result<()> {
        match self.purpose.as_deref() {
            Some(PURPOSE) => Ok(()),
            Some(_) => {
                Err(Error::invalid("purpose", "Files are taken for the purpose `batch` only."))
            }
            None => Err(Error::invalid(
                "purpose",
                "The form has no part `purpose`; it must be `batch`.",
            )),
        }
    }

    fn life_secs(&self) -> Result<Option<u64>> {
        let (Some(anchor), Some(seconds)) = (&self.anchor, &self.seconds) else {
            return match (&self.anchor, &self.seconds) {
                (None, None) => Ok(None),
                _ => Err(Error::invalid("expires_after", "It needs both `anchor` and `seconds`.")),
            };
        };
        let seconds = seconds.parse().map_err(|_| {
            Error::invalid("expires_after[seconds]", "It must be a whole number of seconds.")
        })?;
        ExpiresAfter { anchor: anchor.clone(), seconds }.secs("expires_after").map(Some)
    }
}

/// A name that came from outside, as far as an error shows it.
fn shown(name: &str) -> String {
    name.chars().filter(|letter| !letter.is_control()).take(64).collect()
}
