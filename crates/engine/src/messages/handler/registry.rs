//! Registered handlers, and the plan for a message: objects by type, consumers by name or pattern,
//! publishers by route.
//!
//! Holds throughout: a message that names its consumers goes to those and to no other; for a message
//! that names none, consumers of the inbox and publishers of the outbox are found by pattern; a handler
//! with a transaction of its own has a plan of another type, so it cannot be run without one.

use std::collections::BTreeMap;
use std::sync::Arc;

use windrow_domain::{Queue, millis};
use windrow_store::Error;
use windrow_store::error::within;
use windrow_store::message::Message;
use windrow_store::partition::ServedRoute;
use windrow_store::transactional::SCRIPT_MS_MAX;

use crate::deliver::{NameTwice, Patterns, Publisher, Routes};

use super::erased::{DynObject, DynTransactional};
use super::{Consumer, TransactionalConsumer};

/// A consumer, and the messages of the inbox that go to it.
#[derive(Clone)]
pub(crate) struct ConsumerRoute {
    pub(crate) name: String,
    pub(crate) patterns: Patterns,
    pub(crate) consumer: ConsumerKind,
}

/// How a consumer takes its messages.
#[derive(Clone)]
pub(crate) enum ConsumerKind {
    Plain(Arc<dyn Consumer>),
    Transactional(Arc<dyn TransactionalConsumer>),
}

impl ConsumerRoute {
    /// The plan for a message; `name` is the one by which the message waits for this consumer, if it
    /// waits for names.
    fn plan(&self, name: Option<String>) -> Plan {
        let route = self.name.clone();
        match self.consumer.clone() {
            ConsumerKind::Plain(consumer) => {
                Plan::Plain(PlainPlan::Consume { route, name, consumer })
            }
            ConsumerKind::Transactional(consumer) => {
                Plan::Transaction(TransactionPlan::Consumer { route, name, consumer })
            }
        }
    }
}

/// All handlers and publishers of a runner.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    pub(crate) objects: BTreeMap<String, Arc<dyn DynObject>>,
    /// Types that are not among `objects`.
    pub(crate) transactional: BTreeMap<String, Arc<dyn DynTransactional>>,
    pub(crate) consumers: Vec<ConsumerRoute>,
    pub(crate) routes: Routes,
}

/// A publisher by its name.
pub(crate) type NamedPublisher = (String, Arc<dyn Publisher>);

/// What is to be done with a message next.
#[derive(Clone)]
pub(crate) enum Plan {
    /// The handler runs, and its effects are committed afterwards, together with those of others.
    Plain(PlainPlan),
    /// The handler runs inside of a transaction of its own, which commits its effects.
    Transaction(TransactionPlan),
}

/// A plan without a transaction.
#[derive(Clone)]
pub(crate) enum PlainPlan {
    /// Call the object.
    Call { object_type: String, object: Arc<dyn DynObject> },
    /// Give it to the consumer of a route; by the name it waits for, if it waits for names.
    Consume { route: String, name: Option<String>, consumer: Arc<dyn Consumer> },
    /// Publish it everywhere; done when all of these have it.
    Publish(Vec<NamedPublisher>),
}

/// A plan with a transaction of its own.
#[derive(Clone)]
pub(crate) enum TransactionPlan {
    /// Call the object.
    Object { object_type: String, object: Arc<dyn DynTransactional> },
    /// As [`PlainPlan::Consume`].
    Consumer { route: String, name: Option<String>, consumer: Arc<dyn TransactionalConsumer> },
}

fn object_target(object_type: &str) -> String {
    format!("object {object_type}")
}

fn consumer_target(route: &str) -> String {
    format!("consumer {route}")
}

impl TransactionPlan {
    /// How long the handler may run.
    pub(crate) fn ms_max(&self) -> u64 {
        match self {
            TransactionPlan::Object { object, .. } => millis(object.timeout()),
            TransactionPlan::Consumer { consumer, .. } => millis(consumer.timeout()),
        }
    }

    /// The name of the target, whose availability is watched.
    pub(crate) fn target(&self) -> String {
        match self {
            TransactionPlan::Object { object_type, .. } => object_target(object_type),
            TransactionPlan::Consumer { route, .. } => consumer_target(route),
        }
    }
}

impl PlainPlan {
    /// The name of the target, whose availability is watched; none for publishers, each of which is
    /// watched by itself.
    pub(crate) fn target(&self) -> Option<String> {
        match self {
            PlainPlan::Call { object_type, .. } => Some(object_target(object_type)),
            PlainPlan::Consume { route, .. } => Some(consumer_target(route)),
            PlainPlan::Publish(_) => None,
        }
    }
}

impl Plan {
    /// As [`PlainPlan::target`].
    pub(crate) fn target(&self) -> Option<String> {
        match self {
            Plan::Plain(plan) => plan.target(),
            Plan::Transaction(plan) => Some(plan.target()),
        }
    }

    /// Whether the beginning of each attempt is to be stored.
    pub(crate) fn is_outside(&self) -> bool {
        match self {
            Plan::Plain(PlainPlan::Call { object, .. }) => object.is_outside(),
            Plan::Plain(PlainPlan::Consume { consumer, .. }) => consumer.is_outside(),
            // Receivers know repeats by their id, and nothing more is asked of a publisher.
            Plan::Plain(PlainPlan::Publish(_)) => false,
            // What it does outside of its transaction is its own affair.
            Plan::Transaction(_) => false,
        }
    }

    /// Whether the handler is given the state of an object.
    pub(crate) fn has_state(&self) -> bool {
        let plain = matches!(self, Plan::Plain(PlainPlan::Call { .. }));
        plain || matches!(self, Plan::Transaction(TransactionPlan::Object { .. }))
    }
}

impl Registry {
    /// The object types that are served here.
    pub(crate) fn object_types(&self) -> Vec<String> {
        self.objects.keys().chain(self.transactional.keys()).cloned().collect()
    }

    /// The consumers that are here, as other instances are told of them.
    pub(crate) fn served_consumers(&self) -> Vec<ServedRoute> {
        self.consumers.iter().map(|route| route.patterns.served(&route.name)).collect()
    }

    /// `Invalid` when two publishers have one name, or a handler in a transaction may run for longer than
    /// any may.
    pub(crate) fn check(&self) -> windrow_store::Result<()> {
        let twice = |twice: NameTwice| Error::invalid("publisher", twice.to_string());
        self.routes.check().map_err(twice)?;
        let objects = self.transactional.values().map(|object| object.timeout());
        let consumers = self.consumers.iter().filter_map(|route| match &route.consumer {
            ConsumerKind::Plain(_) => None,
            ConsumerKind::Transactional(consumer) => Some(consumer.timeout()),
        });
        let mut bounds = objects.chain(consumers);
        bounds.try_for_each(|timeout| within("timeout", millis(timeout), SCRIPT_MS_MAX))
    }

    /// What is to be done with a message, or why nothing can be.
    pub(crate) fn plan(&self, message: &Message) -> Result<Plan, String> {
        let (owner, stream) = (&message.owner, message.stream.as_str());
        match message.queue {
            Queue::Calls => self.plan_call(message),
            Queue::Inbox | Queue::Outbox if !message.waiting.is_empty() => {
                self.plan_named(&message.waiting)
            }
            Queue::Inbox => {
                let mut routes = self.consumers.iter();
                let found =
                    routes.find(|route| route.patterns.matches(owner, stream, &message.kind));
                let route = found.ok_or_else(|| format!("no handler for {}", message.kind))?;
                Ok(route.plan(None))
            }
            Queue::Outbox => {
                let routes = self.routes.for_message(owner, stream, &message.kind);
                let found: Vec<NamedPublisher> =
                    routes.map(|route| (route.name.clone(), route.publisher.clone())).collect();
                if found.is_empty() {
                    return Err(format!("no publisher for {}", message.kind));
                }
                Ok(Plan::Plain(PlainPlan::Publish(found)))
            }
        }
    }

    fn plan_call(&self, message: &Message) -> Result<Plan, String> {
        let name = message.stream.as_str().split('/').next().unwrap_or_default();
        let object_type = name.to_owned();
        if let Some(object) = self.objects.get(name).cloned() {
            return Ok(Plan::Plain(PlainPlan::Call { object_type, object }));
        }
        match self.transactional.get(name).cloned() {
            Some(object) => Ok(Plan::Transaction(TransactionPlan::Object { object_type, object })),
            None => Err(format!("no handler for objects {name}")),
        }
    }

    /// Consumers come first, one at a time, since each commits its own effects; then all publishers.
    fn plan_named(&self, waiting: &[String]) -> Result<Plan, String> {
        for name in waiting {
            if let Some(route) = self.consumers.iter().find(|route| route.name == *name) {
                return Ok(route.plan(Some(name.clone())));
            }
        }
        let find = |name: &String| match self.routes.named(name) {
            Some(route) => Ok((name.clone(), route.publisher.clone())),
            None => Err(format!("no publisher and no handler is named {name:?}")),
        };
        let publishers = waiting.iter().map(find).collect::<Result<_, _>>()?;
        Ok(Plan::Plain(PlainPlan::Publish(publishers)))
    }
}
