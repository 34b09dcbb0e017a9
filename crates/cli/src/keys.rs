//! `windrow keys`: creates, lists and revokes API keys.

use anyhow::Context as _;
use jiff::{SignedDuration, Timestamp};
use windrow::domain::{KeyId, Role};
use windrow::store::inspect::PAGE_MAX;
use windrow::store::key::{Key, KeysQuery};
use windrow::store::{Scope, Store};
use windrow_server::api_key::{ApiKey, KeySpec};

use crate::clock;
use crate::context::Context;
use crate::exit_code::Exit;
use crate::list::OwnerArgs;
use crate::ranges;
use crate::table::Table;

/// Create, list and revoke API keys.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    /// Create a key and print it, once
    Create(CreateArgs),
    /// List keys, newest first; the keys themselves are not stored
    List(ListArgs),
    /// Revoke a key for good
    Revoke(RevokeArgs),
}

#[derive(Debug, clap::Args)]
struct CreateArgs {
    /// A name for the key
    #[arg(long, default_value = "")]
    name: String,
    /// Create an admin key, which may act for all owners
    #[arg(long)]
    admin: bool,
    /// Expire the key after this many days
    #[arg(long, value_name = "N", value_parser = ranges::whole(1_u32, 36_500))]
    days: Option<u32>,
}

#[derive(Debug, clap::Args)]
struct ListArgs {
    #[command(flatten)]
    owner: OwnerArgs,
}

#[derive(Debug, clap::Args)]
struct RevokeArgs {
    /// The id of the key, as `windrow keys list` prints it
    #[arg(value_parser = key_id)]
    key: KeyId,
}

fn key_id(text: &str) -> Result<KeyId, String> {
    text.parse().map_err(|_| "not the id of a key; `windrow keys list` shows them".to_owned())
}

pub(crate) async fn run(context: &Context, args: Args) -> anyhow::Result<Exit> {
    match args.command {
        Command::Create(args) => create(context, args).await,
        Command::List(args) => list(context, args).await,
        Command::Revoke(args) => revoke(context, args).await,
    }
}

/// Creates a key. The secret is not stored.
pub(crate) async fn make(store: &dyn Store, spec: KeySpec) -> anyhow::Result<(Key, ApiKey)> {
    let (id, api_key) = ApiKey::generate().context("the system provided no random bytes")?;
    let key = store.add_key(api_key.to_new_key(id, spec)).await?;
    Ok((key, api_key))
}

/// Whether some key of an admin is in use.
pub(crate) async fn has_admin(store: &dyn Store) -> anyhow::Result<bool> {
    let now = clock::now();
    let admin = |key: &Key| {
        let ended = key.expires_at.is_some_and(|end| end <= now);
        key.role == Role::Admin && key.revoked_at.is_none() && !ended
    };
    Ok(all(store, &Scope::All).await?.iter().any(admin))
}

async fn all(store: &dyn Store, scope: &Scope) -> anyhow::Result<Vec<Key>> {
    let (mut keys, mut query) = (Vec::new(), KeysQuery { after: None, limit: PAGE_MAX });
    loop {
        let page = store.keys(scope, query.clone()).await?;
        keys.extend(page.rows);
        match page.next {
            Some(next) => query.after = Some(next),
            None => return Ok(keys),
        }
    }
}

async fn create(context: &Context, args: CreateArgs) -> anyhow::Result<Exit> {
    let store = context.open().await?;
    let life = args.days.map(|days| SignedDuration::from_hours(24 * i64::from(days)));
    let spec = KeySpec {
        owner: context.config.owner.clone(),
        role: if args.admin { Role::Admin } else { Role::Member },
        name: args.name,
        expires_at: life.map(|life| clock::now() + life),
    };
    let (key, api_key) = make(&*store, spec).await?;
    let value = serde_json::json!({ "key": key, "secret": api_key.reveal() });
    context.print_result(&value, || {
        let (owner, role) = (&key.owner, key.role.as_str());
        format!("Key of {owner} ({role}), shown only once: {}\nid: {}", api_key.reveal(), key.id)
    })?;
    Ok(Exit::Success)
}

async fn list(context: &Context, args: ListArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    let scope = args.owner.scope(context);
    let keys = all(&*store, &scope).await?;
    context.print_result(&serde_json::json!({ "rows": keys }), || {
        if keys.is_empty() {
            return "No keys.".to_owned();
        }
        let titles = ["id", "owner", "role", "name", "key", "created", "last use", "state"];
        let mut table = Table::new(&titles);
        let when = |time: Option<Timestamp>| time.map_or("-".to_owned(), crate::batches::when);
        for key in &keys {
            let state = match (key.revoked_at, key.expires_at) {
                (Some(_), _) => "revoked",
                (None, Some(end)) if end <= clock::now() => "expired",
                (None, _) => "active",
            };
            table.row([
                key.id.to_string(),
                key.owner.to_string(),
                key.role.as_str().to_owned(),
                key.name.clone(),
                key.hint.clone(),
                when(Some(key.created_at)),
                when(key.last_used_at),
                state.to_owned(),
            ]);
        }
        table.to_string()
    })?;
    Ok(Exit::Success)
}

async fn revoke(context: &Context, args: RevokeArgs) -> anyhow::Result<Exit> {
    let store = context.open_existing().await?;
    // A user who can open the database may act for all owners.
    let key = store.revoke_key(&Scope::All, args.key).await?;
    context.print_result(&key, || {
        format!("Key {} of {} is revoked; servers refuse it within seconds.", key.id, key.owner)
    })?;
    Ok(Exit::Success)
}
