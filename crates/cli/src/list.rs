//! Lists: the options that every list has, and how a page of rows is printed.
//!
//! Holds throughout: with `--json` a page is `{"rows": […], "next"}`; `next` goes on as `--after`.

use serde::Serialize;
use windrow::store::Scope;
use windrow::store::inspect::{PAGE_MAX, Page};

use crate::context::Context;
use crate::exit_code::Exit;
use crate::ranges;
use crate::table::Table;

/// Which page of a list.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct PageArgs {
    /// Maximum number of rows
    #[arg(long, default_value_t = 20, value_parser = ranges::whole(1, PAGE_MAX))]
    pub(crate) limit: u32,
    /// Continue after the previous page, with the cursor that it printed
    #[arg(long, value_name = "CURSOR")]
    pub(crate) after: Option<String>,
}

/// Whose rows.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct OwnerArgs {
    /// Include every owner, not only --owner
    #[arg(long)]
    all: bool,
}

impl OwnerArgs {
    /// What the command may see.
    pub(crate) fn scope(self, context: &Context) -> Scope {
        if self.all { Scope::All } else { context.scope() }
    }
}

/// A command whose subcommand may be left out: it lists then.
#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct ListOr<C: clap::Subcommand, L: clap::Args> {
    #[command(subcommand)]
    pub(crate) command: Option<C>,
    #[command(flatten)]
    pub(crate) list: L,
}

/// How rows are printed as a table.
pub(crate) struct Columns<'a, T> {
    pub(crate) titles: &'a [&'a str],
    /// Columns that hold numbers.
    pub(crate) right: &'a [usize],
    pub(crate) row: fn(&T) -> Vec<String>,
    /// Printed instead of a table without rows.
    pub(crate) empty: &'a str,
}

/// A page as `--json` prints it.
#[derive(Debug, Serialize)]
pub(crate) struct Rows<'a, T> {
    pub(crate) rows: Vec<T>,
    pub(crate) next: Option<&'a str>,
}

/// Prints a page: the values with `--json`, otherwise a table and how to get the next page.
pub(crate) fn print_page<'a, T, V: Serialize>(
    context: &Context,
    page: &'a Page<T>,
    value: impl Fn(&'a T) -> V,
    columns: &Columns<'_, T>,
) -> anyhow::Result<Exit> {
    let next = page.next.as_deref();
    let rows = page.rows.iter().map(value).collect();
    context.print_result(&Rows { rows, next }, || {
        if page.rows.is_empty() {
            return columns.empty.to_owned();
        }
        let mut table = Table::new(columns.titles);
        table.right(columns.right);
        page.rows.iter().for_each(|row| table.row((columns.row)(row)));
        let more = next.map(|next| format!("\nMore rows: --after {next}"));
        format!("{table}{}", more.unwrap_or_default())
    })?;
    Ok(Exit::Success)
}
