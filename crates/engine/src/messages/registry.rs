//! Who takes which message: objects by type, consumers by name or pattern, publishers by route.
//!
//! Holds throughout: a message that names its consumers goes to those and to nobody else; in a message
//! that names none, consumers of the inbox and publishers of the outbox are found by pattern.

use std::collections::BTreeMap;
use std::sync::Arc;

use windrow_domain::Queue;
use windrow_store::message::Message;

use crate::deliver::{Patterns, Publisher, Routes};

use super::handler::{Consumer, Object, Transactional, TransactionalConsumer};

/// A consumer, and the messages of the inbox that go to it.
#[derive(Clone)]
pub(super) struct Intake {
    pub(super) name: String,
    pub(super) patterns: Patterns,
    pub(super) consumer: Arc<dyn Consumer>,
}

impl Intake {
    /// A message is given to it; by the name it waits for, if it waits for names.
    fn plan(&self, name: Option<String>) -> Plan {
        let intake = self.name.clone();
        match self.consumer.own_transaction() {
            Some(consumer) => Plan::Inside(Own::Consumer { intake, name, consumer }),
            None => Plan::Consume { intake, name, consumer: self.consumer.clone() },
        }
    }
}

/// Everything that takes messages here.
#[derive(Clone, Default)]
pub(super) struct Registry {
    pub(super) objects: BTreeMap<String, Arc<dyn Object>>,
    /// Types that are not among `objects`.
    pub(super) transactional: BTreeMap<String, Arc<dyn Transactional>>,
    pub(super) intakes: Vec<Intake>,
    pub(super) routes: Routes,
}

/// A publisher by its name.
pub(super) type Named = (String, Arc<dyn Publisher>);

/// What is to be done with a message next.
#[derive(Clone)]
pub(super) enum Plan {
    /// Ask the object.
    Call(Arc<dyn Object>),
    /// The same inside of a transaction.
    Inside(Own),
    /// Give it to a consumer; by the name it waits for, if it waits for names.
    Consume { intake: String, name: Option<String>, consumer: Arc<dyn Consumer> },
    /// Publish it everywhere; done when all of these have it.
    Publish(Vec<Named>),
}

/// Who has its own transaction.
#[derive(Clone)]
pub(super) enum Own {
    /// Ask the object.
    Object(Arc<dyn Transactional>),
    /// As [`Plan::Consume`].
    Consumer { intake: String, name: Option<String>, consumer: Arc<dyn TransactionalConsumer> },
}

impl Own {
    /// How long it may take.
    pub(super) fn ms_max(&self) -> u64 {
        match self {
            Own::Object(object) => object.ms_max(),
            Own::Consumer { consumer, .. } => consumer.ms_max(),
        }
    }

    /// What may be away.
    pub(super) fn target(&self) -> String {
        match self {
            Own::Object(object) => format!("object {}", object.object_type()),
            Own::Consumer { intake, .. } => format!("consumer {intake}"),
        }
    }
}

impl Plan {
    /// What may be away; none when it is several that are looked at one by one.
    pub(super) fn target(&self) -> Option<String> {
        match self {
            Plan::Call(object) => Some(format!("object {}", object.object_type())),
            Plan::Inside(own) => Some(own.target()),
            Plan::Consume { intake, .. } => Some(format!("consumer {intake}")),
            Plan::Publish(_) => None,
        }
    }

    /// Whether the beginning of each try is to be stored.
    pub(super) fn is_outside(&self) -> bool {
        match self {
            Plan::Call(object) => object.is_outside(),
            Plan::Consume { consumer, .. } => consumer.is_outside(),
            // What it does outside of its transaction is nobody's business.
            Plan::Inside(_) => false,
            // Receivers know repeats by their id, and nothing more is asked of a publisher.
            Plan::Publish(_) => false,
        }
    }
}

impl Registry {
    /// What is to be done with a message, or why nothing can be.
    pub(super) fn plan(&self, message: &Message) -> Result<Plan, String> {
        match message.queue {
            Queue::Calls => self.plan_call(message),
            Queue::Inbox | Queue::Outbox if !message.waiting.is_empty() => {
                self.plan_named(&message.waiting)
            }
            Queue::Inbox => {
                let (owner, stream) = (&message.owner, message.stream.as_str());
                let mut found = self.intakes.iter();
                let found =
                    found.find(|intake| intake.patterns.matches(owner, stream, &message.kind));
                let intake = found.ok_or_else(|| format!("no handler for {}", message.kind))?;
                Ok(intake.plan(None))
            }
            Queue::Outbox => {
                let (owner, stream) = (&message.owner, message.stream.as_str());
                let routes = self.routes.for_message(owner, stream, &message.kind);
                let found: Vec<Named> =
                    routes.map(|route| (route.name.clone(), route.publisher.clone())).collect();
                match found.is_empty() {
                    true => Err(format!("no publisher for {}", message.kind)),
                    false => Ok(Plan::Publish(found)),
                }
            }
        }
    }

    fn plan_call(&self, message: &Message) -> Result<Plan, String> {
        let name = message.stream.as_str().split('/').next().unwrap_or_default();
        let object = self.objects.get(name).cloned().map(Plan::Call);
        let inside = || self.transactional.get(name).cloned().map(Own::Object).map(Plan::Inside);
        object.or_else(inside).ok_or_else(|| format!("no handler for objects {name}"))
    }

    /// Consumers come first, one at a time, since each commits its own effects; then all publishers.
    fn plan_named(&self, waiting: &[String]) -> Result<Plan, String> {
        for name in waiting {
            if let Some(intake) = self.intakes.iter().find(|intake| intake.name == *name) {
                return Ok(intake.plan(Some(name.clone())));
            }
        }
        let find = |name: &String| match self.routes.named(name) {
            Some(route) => Ok((name.clone(), route.publisher.clone())),
            None => Err(format!("no publisher and no handler is named {name:?}")),
        };
        waiting.iter().map(find).collect::<Result<_, _>>().map(Plan::Publish)
    }
}
