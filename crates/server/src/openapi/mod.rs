//! The OpenAPI description of the API, gathered from the routes, and the page at `/docs` that shows it.
//!
//! Holds throughout: a route is described where it is written, or it is not in the router; what holds
//! for every call (the owner header, common error responses, response headers) is added here, once; the
//! same code gives the same text.

pub(crate) mod error_responses;
mod links;
pub(crate) mod page;

use std::collections::BTreeMap;

use serde_json::{Value, json};
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{Schema, SchemaType};
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::tag::TagBuilder;
use utoipa::openapi::{
    Components, Header, InfoBuilder, KnownFormat, ObjectBuilder, OpenApi, OpenApiBuilder, Paths,
    RefOr, Required, SchemaFormat, Type,
};

use utoipa::ToSchema;

use crate::error::ErrorResponse;
use crate::rest::job::Progress;
use error_responses::error_response;

/// The name of the one security scheme.
const SCHEME: &str = "key";
/// Longest name of an owner.
const OWNER_BYTES_MAX: usize = 256;
/// What a header that is read as text may contain: printable ASCII, and no blank at its ends.
const PLAIN: &str = "^[!-~]([ -~]*[!-~])?$";

/// Raw bytes.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
#[expect(dead_code, reason = "only described")]
pub(crate) struct Binary(Vec<u8>);

/// What the name of a form part may contain. Clients encode line breaks in it as `%0A`.
const PART_NAME: &str = "^[^\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f]*$";

/// The description before its routes are added.
pub(crate) fn outline() -> OpenApi {
    let info = InfoBuilder::new()
        .title("Windrow")
        .version(env!("CARGO_PKG_VERSION"))
        .description(Some(
            "Batches of requests, with exactly one result for each line. `/v1` is what official \
             OpenAI clients speak; `/api` is Windrow's own. Every call but those of operations needs a \
             key, sent as `Authorization: Bearer KEY`.",
        ))
        .build();
    let tag = |name: &str, text: &str| {
        TagBuilder::new().name(name).description(Some(text.to_owned())).build()
    };
    OpenApiBuilder::new()
        .info(info)
        .paths(Paths::new())
        .components(Some(Components::new()))
        .tags(Some([
            tag("Files", "Input files of batches, and their outputs."),
            tag("Batches", "Files of requests that are run."),
            tag("Jobs", "Files of requests that are run, in Windrow's own API."),
            tag("Items", "The lines of jobs and their results."),
            tag("Objects", "Objects with state, and calls of their methods, each run once."),
            tag("Messages", "The outbox, the inbox and dead letters."),
            tag("Events", "Append-only streams of events."),
            tag("Instances", "The processes that run messages."),
            tag("Keys", "API keys."),
            tag("Operations", "For operators; these calls need no API key."),
        ]))
        .build()
}

/// Adds what every call has in common.
pub(crate) fn complete(mut api: OpenApi) -> OpenApi {
    for item in api.paths.paths.values_mut() {
        let writes = [&mut item.post, &mut item.put, &mut item.patch, &mut item.delete];
        [&mut item.get].into_iter().chain(writes).flatten().for_each(complete_operation);
    }
    links::add(&mut api);
    let key = HttpBuilder::new()
        .scheme(HttpAuthScheme::Bearer)
        .description(Some("A key of an owner, as `windrow keys create` makes them."))
        .build();
    let components = api.components.get_or_insert_with(Components::new);
    components.add_security_scheme(SCHEME, SecurityScheme::Http(key));
    add::<ErrorResponse<'_>>(components);
    add::<Progress>(components);
    api
}

/// Adds a schema that no call names.
fn add<T: ToSchema>(components: &mut Components) {
    let mut schemas = vec![(T::name().into_owned(), T::schema())];
    T::schemas(&mut schemas);
    components.schemas.extend(schemas);
}

/// The description as it is served and kept: always the same text.
pub(crate) fn text(api: &OpenApi) -> String {
    let mut value = serde_json::to_value(api).expect("a description is plain JSON");
    say_more(&mut value["components"]["schemas"]);
    let mut text = format!("{:#}", sorted(value));
    text.push('\n');
    text
}

/// Adds what the builder cannot express.
fn say_more(schemas: &mut Value) {
    schemas["NewFile"]["dependentRequired"] = json!({
        "expires_after[anchor]": ["expires_after[seconds]"],
        "expires_after[seconds]": ["expires_after[anchor]"],
    });
    // The name of a part is in a header.
    for form in ["NewFile", "NewJob"] {
        schemas[form]["propertyNames"] = json!({ "pattern": PART_NAME });
    }
    let progress = json!({ "$ref": "#/components/schemas/JobProgress" });
    schemas["JobEvent"]["properties"]["data"]["contentSchema"] = progress;
}

/// Sorts fields by name, whatever order the library has.
fn sorted(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields: BTreeMap<String, Value> = fields.into_iter().collect();
            fields.into_iter().map(|(name, value)| (name, sorted(value))).collect()
        }
        Value::Array(values) => values.into_iter().map(sorted).collect(),
        plain => plain,
    }
}

fn complete_operation(operation: &mut Operation) {
    operation.parameters.iter_mut().flatten().for_each(never_null);
    if operation.security.is_some() {
        operation.parameters.get_or_insert_default().push(RefOr::T(act_for()));
        for (status, what) in error_responses::OF_EVERY_CALL {
            let all = &mut operation.responses.responses;
            all.entry(status.to_string()).or_insert_with(|| error_response(what).into());
        }
    }
    for (status, response) in &mut operation.responses.responses {
        if let RefOr::T(response) = response {
            let mut add = |name: &str, header: Header| {
                response.headers.insert(name.to_owned(), RefOr::T(header));
            };
            add("X-Request-Id", text_header("The id of this request, as in the server's log."));
            match status.as_str() {
                "401" => add("WWW-Authenticate", text_header("`Bearer`.")),
                "429" | "503" => add("Retry-After", seconds_header()),
                _ => {}
            }
        }
    }
}

/// A parameter that is not there is left out; there is no null in a query or a header.
fn never_null(parameter: &mut RefOr<Parameter>) {
    if let RefOr::T(Parameter { schema: Some(RefOr::T(Schema::Object(object))), .. }) = parameter
        && let SchemaType::Array(types) = &object.schema_type
        && let Some(only) = types.iter().find(|kind| **kind != Type::Null)
    {
        object.schema_type = SchemaType::Type(only.clone());
    }
}

/// The header by which an admin acts for an owner.
fn act_for() -> Parameter {
    let name = ObjectBuilder::new()
        .schema_type(Type::String)
        .max_length(Some(OWNER_BYTES_MAX))
        .pattern(Some(PLAIN));
    ParameterBuilder::new()
        .name("Windrow-Owner")
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some("The owner that an admin acts for; only admins may send it."))
        .schema(Some(name))
        .build()
}

fn text_header(what: &str) -> Header {
    let text = ObjectBuilder::new().schema_type(Type::String);
    let mut header = Header::new(Schema::from(text));
    header.description = Some(what.to_owned());
    header
}

fn seconds_header() -> Header {
    let seconds = ObjectBuilder::new()
        .schema_type(Type::Integer)
        .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int64)))
        .minimum(Some(0));
    let mut header = Header::new(Schema::from(seconds));
    header.description = Some("Seconds to wait before a retry.".to_owned());
    header
}
