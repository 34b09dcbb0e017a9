//! Uploads: a file from a multipart form or a plain body is streamed into the store.
//!
//! The files import in one direction: `mod` uses `form` and `multipart`, `form` uses `multipart` and
//! `expiry`.
//!
//! Holds throughout: only a few blocks of the file are in memory; when an upload fails, nothing of it is
//! visible; a client that stalls or drips is cut off.

mod expiry;
mod form;
mod multipart;

use std::io;

use bytes::Bytes;
use futures_util::stream::{self, Stream, StreamExt as _};
use jiff::{SignedDuration, Timestamp};
use tokio::sync::{mpsc, oneshot};
use tokio_util::io::StreamReader;
use tracing::Instrument as _;
use windrow_domain::FileId;
use windrow_engine::ingest::{self, Ingested, ingest_by};
use windrow_store::ingest::NewFile;
use windrow_store::{Ingest, Scope};

use crate::app::App;
use crate::auth::Caller;
use crate::error::{Code, Error, Result};

use crate::body_timeout::BodyTimeout;
pub(crate) use expiry::{Anchor, ExpiresAfter};
pub(crate) use form::PARTS_MAX;
use form::{FilePiece, FileStart, FormFields, FormReader, PURPOSE};
pub(crate) use multipart::MultipartForm;

/// Pieces that wait to be stored.
const PIECES_WAITING_MAX: usize = 1;
/// Longest name of a file.
const NAME_BYTES_MAX: usize = 255;

/// The id, name and life of a new file.
pub(crate) struct NewUpload<'a> {
    pub(crate) id: FileId,
    pub(crate) name: Option<&'a str>,
    pub(crate) life_secs: u64,
}

/// Where the purpose of an upload comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// The form has a part `purpose`.
    FormField,
    /// The route implies it.
    Implied,
}

/// Stores the part `file` of a form. The other parts may come before it or after it: the file
/// becomes visible once the form was read to its end and is valid.
pub(crate) async fn store_form(
    app: &App,
    into: &(dyn Ingest + Sync),
    caller: &Caller,
    parts: MultipartForm,
    purpose: Purpose,
) -> Result<Ingested> {
    let form = match purpose {
        Purpose::FormField => FormFields::default(),
        Purpose::Implied => FormFields::for_purpose(PURPOSE),
    };
    let (begins, begun) = oneshot::channel();
    let (sender, pieces) = mpsc::channel(PIECES_WAITING_MAX);
    let reading = FormReader::new(form, begins, sender).read(parts);
    let storing = store(app, into, caller, purpose, begun, pieces);
    tokio::pin!(reading, storing);
    let stored = tokio::select! {
        biased;
        read = &mut reading => match (read, storing.await) {
            // The upload was discarded because the form is invalid.
            (Err(Some(error)), _) => return Err(error),
            (_, stored) => stored,
        },
        // The store refused the file: the rest of the form is not read.
        stored = &mut storing => stored,
    };
    stored.unwrap_or_else(|| Err(Error::invalid("file", "The form has no part `file`.")))
}

/// Stores a file as its pieces arrive; none when the form has no file.
async fn store(
    app: &App,
    into: &(dyn Ingest + Sync),
    caller: &Caller,
    purpose: Purpose,
    begun: oneshot::Receiver<FileStart>,
    mut pieces: mpsc::Receiver<io::Result<FilePiece>>,
) -> Option<Result<Ingested>> {
    let FileStart { name, life_secs } = begun.await.ok()?;
    let (id, life_secs) =
        (FileId::new(), life_secs.unwrap_or(app.options.file_retention.as_secs()));
    let pieces = stream::poll_fn(move |context| pieces.poll_recv(context));
    let bytes = pieces.then(move |piece| async move {
        match piece? {
            FilePiece::Bytes(bytes) => Ok(bytes),
            FilePiece::Life(secs) => {
                let end = after(app.clock.now(), secs).map_err(|_| io::ErrorKind::InvalidData)?;
                app.store.expire_file(id, end).await.map_err(io::Error::other)?;
                Ok(Bytes::new())
            }
        }
    });
    let new_upload = NewUpload { id, name: name.as_deref(), life_secs };
    Some(store_stream(app, into, caller, purpose, new_upload, bytes).await)
}

/// Drops what was stored already, and returns the error.
pub(crate) async fn discard(
    app: &App,
    caller: &Caller,
    stored: Option<Ingested>,
    error: Error,
) -> Error {
    if let Some(ingested) = stored {
        let scope = Scope::Owner(caller.owner.clone());
        if let Err(cause) = app.store.drop_file(&scope, ingested.file.id).await {
            tracing::warn!(file.id = %ingested.file.id, error = %cause, "could not discard an upload");
        }
    }
    error
}

/// Stores a file from a stream of bytes.
pub(crate) async fn store_stream(
    app: &App,
    into: &(dyn Ingest + Sync),
    caller: &Caller,
    purpose: Purpose,
    new_upload: NewUpload<'_>,
    bytes: impl Stream<Item = io::Result<Bytes>> + Send,
) -> Result<Ingested> {
    let file = NewFile {
        id: new_upload.id,
        owner: caller.owner.clone(),
        name: shown_name(new_upload.name)?,
        purpose: PURPOSE.to_owned(),
        expires_at: Some(after(app.clock.now(), new_upload.life_secs)?),
    };
    // OpenAI's contract knows no other method.
    let only_post = purpose == Purpose::FormField || !app.routes.allows_methods();
    let options = (*app.ingest).clone().file_bytes_max(app.options.upload_bytes_max);
    let options = options.only_post(only_post);
    let body_timeout = BodyTimeout::new(app.clock.clone(), &app.options);
    let reader = StreamReader::new(body_timeout.watch(bytes));
    let began = app.clock.elapsed();
    let span = tracing::info_span!("ingest", file.id = %file.id);
    let ingesting = ingest_by(&app.clock, into, reader, file, options);
    let ingested = ingesting.instrument(span).await;
    let ingested = ingested.map_err(refused)?;
    app.metrics.observe_ingest(app.clock.elapsed().saturating_sub(began));
    let file = &ingested.file;
    tracing::info!(
        file.id = %file.id, owner = %caller.owner, bytes = file.bytes, lines = file.lines,
        errors = ingested.errors_total, "file uploaded"
    );
    Ok(ingested)
}

/// The API's error for an ingest that failed.
fn refused(error: ingest::Error) -> Error {
    match error {
        ingest::Error::TooLarge { bytes_max, .. } => Error::new(
            Code::FileTooLarge,
            format!("A file may have at most {bytes_max} bytes; split it into several."),
        ),
        ingest::Error::Read { source, .. } if source.kind() == io::ErrorKind::TimedOut => {
            Error::upload_too_slow()
        }
        ingest::Error::Read { after_line, source } => match source.downcast() {
            Ok(store_error) => windrow_store::Error::into(store_error),
            Err(_) => Error::new(
                Code::UploadBroken,
                format!(
                    "The upload ended early, after line {after_line}; nothing of it was stored."
                ),
            ),
        },
        ingest::Error::Store { source, .. } => source.into(),
        ingest::Error::WrongKind(wrong) => Error::invalid("file", wrong.message),
        ingest::Error::Storage(_) | ingest::Error::Spill { .. } => {
            Error::internal(windrow_store::error::chain(&error))
        }
    }
}

/// Checks a file name that was given apart from the file, also where the file has its own.
pub(crate) fn check_name(given: &str) -> Result<()> {
    let fits = given.chars().count() <= NAME_BYTES_MAX && !given.contains('\0');
    shown_name(Some(if fits { given } else { "" })).map(drop)
}

/// A file name that lists can show.
fn shown_name(given: Option<&str>) -> Result<String> {
    let name = given.unwrap_or("upload.jsonl");
    let name = name.rsplit(['/', '\\']).next().unwrap_or(name);
    if (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control) {
        Ok(name.to_owned())
    } else {
        Err(Error::invalid(
            "file",
            format!(
                "The file name must have 1 to {NAME_BYTES_MAX} bytes, without control \
                    characters."
            ),
        ))
    }
}

fn after(now: Timestamp, secs: u64) -> Result<Timestamp> {
    let life = SignedDuration::from_secs(secs.try_into().unwrap_or(i64::MAX));
    now.checked_add(life).map_err(Error::internal)
}
