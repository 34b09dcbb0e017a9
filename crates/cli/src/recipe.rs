//! `windrow recipe`: checks and shows recipes. Needs neither a configuration nor a database.

use std::io::Read;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use windrow_recipe::{Complaints, RECIPE_BYTES_MAX, Recipe, json_schema};

use crate::error::CliError;
use crate::exit_code::Exit;
use crate::text;

/// Check and show recipes.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Say what is wrong with a recipe, with line and column
    Check(RecipeArgs),
    /// Say in plain words what a recipe does
    Show(RecipeArgs),
    /// Print the JSON Schema of recipes, for editors
    Schema,
}

#[derive(Debug, clap::Args)]
struct RecipeArgs {
    /// The recipe
    recipe: PathBuf,
}

pub(crate) fn run(args: Args, json: bool) -> anyhow::Result<Exit> {
    match args.command {
        Command::Check(args) => {
            let recipe = read(&args.recipe)?;
            let said = format!("{} is a good recipe.", args.recipe.display());
            print(json, &summary(&recipe), &said)?;
        }
        Command::Show(args) => {
            let recipe = read(&args.recipe)?;
            print(json, &summary(&recipe), recipe.describe().trim_end())?;
        }
        Command::Schema => text::print_line(&serde_json::to_string_pretty(&json_schema())?)?,
    }
    Ok(Exit::Success)
}

fn print(json: bool, value: &Value, said: &str) -> anyhow::Result<()> {
    if json {
        text::print_line(&value.to_string())?;
    } else {
        text::print_line(said)?;
    }
    Ok(())
}

/// What programs want to know of a recipe.
fn summary(recipe: &Recipe) -> Value {
    let strategies: Vec<&str> =
        (0..recipe.strategies()).map(|number| recipe.strategy_name(number)).collect();
    json!({
        "upstream": recipe.upstream(),
        "type": recipe.job_type(),
        "model": recipe.model(),
        "strategies": strategies,
        "columns": recipe.columns(),
    })
}

/// Reads a recipe from a file, at most as much of it as a recipe may have.
fn read(path: &Path) -> anyhow::Result<Recipe> {
    let name = path.display();
    let cannot = |why: String| {
        CliError::usage(format!("{name} cannot be read: {why}"), "Name a recipe in a text file.")
    };
    let file = std::fs::File::open(path).map_err(|error| cannot(error.to_string()))?;
    let mut bytes = Vec::new();
    let bytes_max = RECIPE_BYTES_MAX as u64 + 1;
    file.take(bytes_max).read_to_end(&mut bytes).map_err(|error| cannot(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| cannot("it is no UTF-8".to_owned()))?;
    // Some editors put a mark before the first letter.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok(Recipe::parse(text).map_err(|complaints| refused(&name.to_string(), &complaints))?)
}

/// A recipe that has something wrong with it: all of it, a line each.
fn refused(name: &str, complaints: &Complaints) -> CliError {
    let count = complaints.iter().count() as u64;
    let mistakes = text::plural(count, "mistake");
    let lines: Vec<String> = complaints.iter().map(|complaint| format!("  {complaint}")).collect();
    let fields: Vec<Value> = complaints
        .iter()
        .map(|complaint| {
            json!({
                "line": complaint.line,
                "column": complaint.column,
                "message": complaint.what,
                "instead": complaint.instead,
            })
        })
        .collect();
    let remedy = "docs/recipes.md lists every key, name and filter.";
    CliError::usage(format!("{name} has {mistakes}"), remedy)
        .with_list(lines.join("\n"), json!({ "mistakes": fields }))
}
