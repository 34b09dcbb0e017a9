//! Authentication: the API key of a request, its owner, its role and its rate limit.
//!
//! Holds throughout: what a caller may see is a [`Scope`] that goes into the query; only an admin has
//! one beyond its own owner; the text of a key is nowhere but in the request.

use std::collections::HashSet;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::{ConnectInfo, FromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use governor::clock::{Clock as _, DefaultClock};
use governor::{DefaultKeyedRateLimiter, Quota};
use std::num::NonZeroU32;

use parking_lot::Mutex;
use windrow_domain::Role;
use windrow_domain::millis;
use windrow_domain::{KeyId, Owner};
use windrow_engine::bounded_map::BoundedMap;
use windrow_store::key::Key;
use windrow_store::{Kind, Scope};

use crate::api_key::ApiKey;
use crate::app::App;
use crate::error::{Code, Error, Result};
use crate::options::Options;

/// The header by which an admin acts for an owner.
const ACT_FOR: &str = "windrow-owner";
/// Keys that are cached; beyond that, keys are read from the database every time.
const CACHED_KEYS_MAX: usize = 10_000;
/// Keys whose last use waits to be stored.
const USED_MAX: usize = 1_000;
/// Owners whose rate is kept before idle ones are dropped.
const RATES_MAX: usize = 10_000;

/// The caller of a request.
#[derive(Clone, Debug)]
pub struct Caller {
    /// The owner whose objects it creates and lists.
    pub owner: Owner,
    /// What its key allows.
    pub role: Role,
    /// The id of its key.
    pub key: KeyId,
    /// The address of the client.
    pub address: Option<IpAddr>,
    /// Whether it reaches the objects of every owner: an admin that acts for none.
    reaches_all: bool,
    /// The hash of its key.
    hash: [u8; 32],
}

impl Caller {
    /// What it reaches when it names an object: an admin reaches every owner's.
    pub fn scope(&self) -> Scope {
        if self.reaches_all { Scope::All } else { self.own() }
    }

    /// What it reaches when it lists objects.
    pub fn own(&self) -> Scope {
        Scope::Owner(self.owner.clone())
    }

    /// The address of the client, as text.
    pub fn source_address(&self) -> Option<String> {
        self.address.map(|address| address.to_string())
    }

    /// Whether its key is still valid, for requests that last long. A database that does not
    /// answer says nothing about the key.
    pub(crate) async fn is_still_valid(&self, app: &App) -> bool {
        match app.guard.find(app, self.hash).await {
            Ok(_) => true,
            Err(error) => error.status() != StatusCode::UNAUTHORIZED,
        }
    }

    /// Fails for a caller that is not an admin.
    pub fn check_admin(&self) -> Result<()> {
        match self.role {
            Role::Admin => Ok(()),
            Role::Member => {
                Err(Error::new(Code::AdminOnly, "This call requires an admin's API key."))
            }
        }
    }
}

/// The cache of keys, and the rate limits.
#[derive(Debug)]
pub(crate) struct Guard {
    cached: Mutex<BoundedMap<[u8; 32], CachedKey>>,
    /// How often the cache was cleared: what was read before a clear is not cached after it.
    clears: AtomicU64,
    used: Mutex<HashSet<KeyId>>,
    rates: DefaultKeyedRateLimiter<Owner>,
    key_ms_max: u64,
}

#[derive(Clone, Debug)]
struct CachedKey {
    key: Arc<Key>,
    until_ms: u64,
}

impl Guard {
    pub(crate) fn new(options: &Options) -> Self {
        let per_sec = NonZeroU32::new(options.requests_per_sec_max).unwrap_or(NonZeroU32::MIN);
        let burst = NonZeroU32::new(options.requests_burst).unwrap_or(NonZeroU32::MIN);
        Self {
            cached: Mutex::new(BoundedMap::new(CACHED_KEYS_MAX)),
            clears: AtomicU64::new(0),
            used: Mutex::default(),
            rates: DefaultKeyedRateLimiter::keyed(Quota::per_second(per_sec).allow_burst(burst)),
            key_ms_max: millis(options.key_cache_max),
        }
    }

    /// The key with this hash: cached for a moment, then read again.
    async fn find(&self, app: &App, hash: [u8; 32]) -> Result<Arc<Key>> {
        let now_ms = app.clock.millis();
        if let Some(cached) = self.cached.lock().get(&hash)
            && cached.until_ms > now_ms
            && cached.key.expires_at.is_none_or(|end| end > app.clock.now())
        {
            return Ok(cached.key.clone());
        }
        let clears = self.clears.load(Ordering::SeqCst);
        let key = match app.store.find_key(&hash).await {
            Ok(key) => Arc::new(key),
            Err(error) if error.kind == Kind::Missing => {
                self.cached.lock().remove(&hash);
                return Err(invalid_key());
            }
            Err(error) => return Err(error.into()),
        };
        let mut cached = self.cached.lock();
        // It may have been revoked while it was read.
        if clears == self.clears.load(Ordering::SeqCst) {
            let until_ms = now_ms + self.key_ms_max;
            let entry = CachedKey { key: key.clone(), until_ms };
            cached.insert(hash, entry, |_, cached| cached.until_ms > now_ms);
        }
        Ok(key)
    }

    /// Empties the cache, as after a key was revoked here.
    pub(crate) fn clear_cache(&self) {
        let mut cached = self.cached.lock();
        self.clears.fetch_add(1, Ordering::SeqCst);
        cached.clear();
    }

    /// Keys that were used since the last call.
    pub(crate) fn take_used(&self) -> Vec<KeyId> {
        std::mem::take(&mut *self.used.lock()).into_iter().collect()
    }

    fn note_use(&self, key: KeyId) {
        let mut used = self.used.lock();
        if used.len() < USED_MAX {
            used.insert(key);
        }
    }

    fn check_rate(&self, owner: &Owner) -> Result<()> {
        if self.rates.len() > RATES_MAX {
            self.rates.retain_recent();
        }
        self.rates.check_key(owner).map_err(|until| {
            let wait = until.wait_time_from(DefaultClock::default().now());
            let message = "Rate limit exceeded; see Retry-After.";
            Error::new(Code::RateLimitExceeded, message).retry_after(wait.as_secs() + 1)
        })
    }
}

fn invalid_key() -> Error {
    let message = "The API key is unknown, revoked or expired. Send a valid one as \
                    `Authorization: Bearer KEY`; `windrow keys create` makes one.";
    Error::new(Code::InvalidApiKey, message)
}

fn bearer_key(headers: &HeaderMap) -> Result<ApiKey> {
    let missing = || {
        let message = "The request has no API key. Send one as `Authorization: Bearer KEY`.";
        Error::new(Code::MissingApiKey, message)
    };
    let value = headers.get(header::AUTHORIZATION).ok_or_else(missing)?;
    let text = value.to_str().map_err(|_| invalid_key())?;
    let (scheme, key) = text.split_once(' ').ok_or_else(missing)?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(missing());
    }
    ApiKey::parse(key.trim()).ok_or_else(invalid_key)
}

/// The owner that an admin acts for.
fn acts_for(headers: &HeaderMap, role: Role) -> Result<Option<Owner>> {
    let Some(value) = headers.get(ACT_FOR) else { return Ok(None) };
    if role != Role::Admin {
        let message = "Only an admin may act for another owner.";
        return Err(Error::new(Code::AdminOnly, message).at("Windrow-Owner"));
    }
    let name = value
        .to_str()
        .map_err(|_| Error::invalid("Windrow-Owner", "`Windrow-Owner` must be printable ASCII."))?;
    let owner = Owner::new(name).map_err(|bad| Error::invalid("Windrow-Owner", bad.to_string()))?;
    Ok(Some(owner))
}

impl FromRequestParts<App> for Caller {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let hash = bearer_key(&parts.headers)?.hash();
        let key = app.guard.find(app, hash).await?;
        app.guard.check_rate(&key.owner)?;
        app.guard.note_use(key.id);
        let acts_for = acts_for(&parts.headers, key.role)?;
        let address = parts.extensions.get::<ConnectInfo<SocketAddr>>();
        Ok(Self {
            reaches_all: key.role == Role::Admin && acts_for.is_none(),
            owner: acts_for.unwrap_or_else(|| key.owner.clone()),
            role: key.role,
            key: key.id,
            address: address.map(|ConnectInfo(address)| address.ip()),
            hash,
        })
    }
}
