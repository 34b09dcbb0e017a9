//! Where a command sends everything: a table of the configuration, or a URL.
//!
//! Holds throughout: a batch goes where its lanes are bound to. What it was begun with (`to` among its
//! metadata) counts only as another way to write that: the batch may have been moved since.

use std::path::{Path, PathBuf};

use anyhow::Context as _;
use url::Url;
use windrow::domain::UpstreamId;
use windrow::engine::execute::http::Upstream;
use windrow::store::batch::Batch;

use crate::context::Context;
use crate::error::CliError;
use crate::exit_code::Exit;
use crate::hint;
use crate::output_files::{OutputFiles, RESULTS};
use crate::run::url;
use crate::upstream::{DEFAULT, table_for, upstream_of};

/// The one upstream of a command.
#[derive(Clone, Debug)]
pub(crate) struct Destination {
    pub(crate) url: Url,
    /// What the database knows it by.
    pub(crate) upstream: UpstreamId,
    /// The table that it is; none for a URL.
    pub(crate) table: Option<String>,
}

impl Destination {
    /// A URL, which is known by its canonical text.
    pub(crate) fn url(to: &Url) -> anyhow::Result<Self> {
        Ok(Self { url: to.clone(), upstream: upstream_of(to)?, table: None })
    }

    /// A table of the configuration, which is known by its name.
    pub(crate) fn table(context: &Context, name: &str) -> anyhow::Result<Self> {
        let table = context.config.upstreams.get(name).map(|table| &*table.base_url);
        let base_url = table.unwrap_or_default();
        let url = url(base_url).map_err(|why| {
            let what = format!("base_url {base_url:?} of the upstream is not valid: {why}");
            CliError::new(Exit::Config, what, "correct it in the configuration.")
        })?;
        let upstream = UpstreamId::new(name).with_context(|| {
            let what = format!("the upstream {name:?} has a bad name");
            CliError::new(Exit::Config, what, "give its table a shorter name.")
        })?;
        Ok(Self { url, upstream, table: Some(name.to_owned()) })
    }

    /// Where a batch goes; none when that is several upstreams, or nothing that can be told from here.
    pub(crate) fn of(context: &Context, batch: &Batch) -> Option<Self> {
        let [bound] = &batch.upstreams[..] else { return None };
        if context.config.upstreams.contains_key(bound.as_str()) {
            return Self::table(context, bound.as_str()).ok();
        }
        let to = begun_with(batch).filter(|to| upstream_of(to).is_ok_and(|to| to == *bound));
        let found = Self::url(&to.or_else(|| url(bound.as_str()).ok())?).ok()?;
        (found.upstream == *bound).then_some(found)
    }

    /// The settings of its requests.
    pub(crate) fn settings(&self, context: &Context) -> Upstream {
        let table = self.table.as_ref().and_then(|name| {
            let table = context.config.upstreams.get(name)?.clone();
            // It serves all that this command sends.
            Some(table.name(name.clone()).targets(Vec::new()))
        });
        table.unwrap_or_else(|| table_for(context, &self.url))
    }

    /// Certificates to trust besides the system's.
    pub(crate) fn ca_file(&self, context: &Context) -> Option<PathBuf> {
        self.settings(context).ca_file
    }
}

/// The URL that a run was begun with.
fn begun_with(batch: &Batch) -> Option<Url> {
    url(batch.metadata.get("to")?).ok()
}

/// The table that a command without `--to` means: the default one, or the only one.
pub(crate) fn usual_table(context: &Context) -> Option<(&str, &Upstream)> {
    let tables = &context.config.upstreams;
    let only = || tables.iter().next().filter(|_| tables.len() == 1);
    let found = tables.get_key_value(DEFAULT).or_else(only);
    found.map(|(name, table)| (name.as_str(), table))
}

/// How to have a batch run on, where it goes now: the command that began it, or a worker.
pub(crate) fn start_hint(context: &Context, batch: &Batch) -> String {
    run_again(context, batch).unwrap_or_else(|| match Destination::of(context, batch) {
        Some(Destination { table: None, url, .. }) => {
            hint::command(&["work", "--to", url.as_str()])
        }
        Some(_) => hint::command(&["work"]),
        None if batch.upstreams.iter().all(|bound| bound.is_unknown()) => {
            hint::command(&["work", "--to", "URL"])
        }
        // Who serves it has a configuration with its name.
        None => hint::command(&["work"]),
    })
}

/// The command that began a run, as long as it would send its lines where they are bound to.
pub(crate) fn run_again(context: &Context, batch: &Batch) -> Option<String> {
    // A copy of standard input is gone by now.
    let path = batch.metadata.get("path").filter(|path| Path::new(path).exists())?;
    // The same run is known by the very URL that it was begun with.
    let to = batch.metadata.get("to")?;
    let found = Destination::of(context, batch).filter(|found| found.url.as_str() == to)?;
    let mut words = vec!["run", path];
    match &found.table {
        None => words.extend(["--to", to]),
        Some(name) if usual_table(context).is_some_and(|(usual, _)| usual == name) => {}
        Some(_) => return None,
    }
    let out = batch.metadata.get(RESULTS);
    if let Some(out) = out.filter(|out| !OutputFiles::is_usual(path.as_ref(), out.as_ref())) {
        words.extend(["--out", out]);
    }
    Some(hint::command(&words))
}
