// Shows openapi.json. What is shown is set as text, never as markup.
"use strict";

const VERBS = ["get", "post", "patch", "put", "delete"];

function make(tag, attributes, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes ?? {})) node.setAttribute(name, value);
  node.append(...children.filter((child) => child !== undefined && child !== ""));
  return node;
}

// Descriptions mark code with backticks, and nothing else.
function prose(text, tag = "p") {
  const pieces = (text ?? "").split("`");
  return make(tag, {}, ...pieces.map((piece, no) => (no % 2 ? make("code", {}, piece) : piece)));
}

function named(ref) {
  return ref.split("/").pop();
}

function follow(api, node) {
  let found = node;
  while (found?.$ref) {
    found = found.$ref.slice(2).split("/").reduce((at, part) => at?.[part], api);
  }
  return whole(api, found ?? {});
}

// A schema that is made of others, as one.
function whole(api, { allOf, ...own }) {
  if (!allOf) return own;
  const parts = [...allOf.map((part) => follow(api, part)), own];
  const properties = Object.assign({}, ...parts.map((part) => part.properties));
  const required = parts.flatMap((part) => part.required ?? []);
  const one = Object.assign({}, ...parts);
  return Object.keys(properties).length ? { ...one, properties, required } : one;
}

// A few words for what a value is.
function kind(schema) {
  if (!schema) return "anything";
  if (schema.$ref) return named(schema.$ref);
  if (schema.allOf) return schema.allOf.map(kind).join(" and ");
  const several = schema.oneOf ?? schema.anyOf;
  if (several) return several.map(kind).join(" or ");
  if (schema.enum) return schema.enum.map((value) => JSON.stringify(value)).join(" | ");
  const types = [schema.type ?? "anything"].flat();
  const words = types.map((type) => (type === "array" ? `list of ${kind(schema.items)}` : type));
  return words.join(" or ") + (schema.format ? ` (${schema.format})` : "");
}

function bounds(schema) {
  const words = [];
  const say = (name, text) => schema?.[name] !== undefined && words.push(`${text} ${schema[name]}`);
  say("minimum", "at least");
  say("maximum", "at most");
  say("minLength", "shortest");
  say("maxLength", "longest");
  say("minItems", "fewest");
  say("maxItems", "most");
  say("maxProperties", "most");
  say("default", "usually");
  say("pattern", "as");
  return words.join(", ");
}

// Links the names of schemas to where they are shown.
function linked(schema) {
  const text = kind(schema);
  const name = [schema, ...(schema?.oneOf ?? []), ...(schema?.allOf ?? []), schema?.items].find((part) => part?.$ref)?.$ref;
  return name
    ? make("a", { href: `#schema-${named(name)}` }, make("code", {}, text))
    : make("code", {}, text);
}

// A path that goes on in the next line where one of its parts begins.
function breaking(path) {
  const parts = path.split(/(?=\/)/).flatMap((part) => [make("wbr"), part]);
  return make("span", {}, ...parts);
}

function table(heads, rows) {
  const head = make("tr", {}, ...heads.map((text) => make("th", { scope: "col" }, text)));
  const cells = rows.map((row) => make("tr", {}, ...row.map((cell) => make("td", {}, cell))));
  return make("div", { class: "wide" }, make("table", {}, make("thead", {}, head), make("tbody", {}, ...cells)));
}

function fields(schema) {
  const required = new Set(schema.required ?? []);
  const row = ([name, field]) => {
    const said = make("div", {}, prose(field.description, "div"));
    const bound = bounds(field);
    if (bound) said.append(make("div", { class: "soft" }, make("code", {}, bound)));
    return [make("code", {}, name), linked(field), required.has(name) ? "always" : "optional", said];
  };
  return table(["field", "is", "", ""], Object.entries(schema.properties).map(row));
}

// A value that fits a schema, for people to begin with.
function example(api, schema, depth = 0) {
  if (schema?.example !== undefined) return schema.example;
  if (schema?.examples?.length) return schema.examples[0];
  const found = follow(api, schema);
  if (found.example !== undefined) return found.example;
  if (found.default !== undefined) return found.default;
  if (found.enum) return found.enum[0];
  const several = found.oneOf ?? found.anyOf;
  if (several) return example(api, several[0], depth + 1);
  const type = [found.type].flat()[0];
  if (depth > 6) return null;
  if (type === "object") {
    const entries = Object.entries(found.properties ?? {});
    return Object.fromEntries(entries.map(([name, field]) => [name, example(api, field, depth + 1)]));
  }
  if (type === "array") return [example(api, found.items, depth + 1)];
  if (type === "integer" || type === "number") return found.minimum ?? 0;
  if (type === "boolean") return false;
  if (found.format === "date-time") return "2026-01-31T12:00:00Z";
  if (found.format === "uuid") return "01981a2b-0000-7000-8000-000000000000";
  const start = /^\^([a-z]+[-_])\[0-9a-f\]\{32\}\$$/.exec(found.pattern ?? "");
  return start ? `${start[1]}01981a2b000070008000000000000000` : "text";
}

function body(operation) {
  return Object.entries(operation.requestBody?.content ?? {})[0] ?? [];
}

function curl(api, path, verb, operation) {
  const parameters = (operation.parameters ?? []).map((parameter) => follow(api, parameter));
  const value = (parameter) => String(parameter.example ?? example(api, parameter.schema));
  let url = path;
  for (const parameter of parameters.filter((one) => one.in === "path")) {
    url = url.replace(`{${parameter.name}}`, value(parameter));
  }
  const parts = [`curl ${verb === "get" ? "" : `-X ${verb.toUpperCase()} `}${location.origin}${url}`];
  if (operation.security) parts.push(`-H "Authorization: Bearer $WINDROW_KEY"`);
  const [type, content] = body(operation);
  if (type === "multipart/form-data") {
    const properties = Object.entries(follow(api, content.schema).properties ?? {});
    const needed = follow(api, content.schema).required ?? [];
    for (const [name, field] of properties.filter(([one]) => needed.includes(one)).reverse()) {
      parts.push(field.format === "binary" ? `-F ${name}=@requests.jsonl` : `-F ${name}=${example(api, field)}`);
    }
  } else if (type === "application/json") {
    parts.push(`-H "Content-Type: ${type}"`, `-d '${JSON.stringify(example(api, content.schema))}'`);
  } else if (type) {
    parts.push(`-H "Content-Type: ${type}"`, "--data-binary @requests.jsonl");
  }
  return parts.join(" \\\n  ");
}

function answers(api, operation) {
  const rows = Object.entries(operation.responses).map(([status, answer]) => {
    const found = follow(api, answer);
    const [type, content] = Object.entries(found.content ?? {})[0] ?? [];
    const shape = content?.schema ? linked(content.schema) : make("span", {});
    const what = make("div", {}, shape, type && type !== "application/json" ? ` as ${type}` : "");
    return [make("code", {}, status), prose(found.description, "div"), type ? what : ""];
  });
  return table(["answer", "", "shape"], rows);
}

function call(api, path, verb, operation) {
  const heading = make("h3", {}, make("span", { class: `verb ${verb}` }, verb.toUpperCase()), make("code", {}, path));
  const shown = make("article", { id: operation.operationId }, heading, make("p", {}, make("strong", {}, operation.summary ?? "")));
  if (operation.description) shown.append(prose(operation.description));
  if (!operation.security) shown.append(make("p", { class: "soft" }, "No key is needed."));
  const parameters = (operation.parameters ?? []).map((parameter) => follow(api, parameter));
  if (parameters.length) {
    const row = (one) => {
      const said = prose(one.description, "div");
      const bound = bounds(one.schema);
      if (bound) said.append(make("div", { class: "soft" }, make("code", {}, bound)));
      return [make("code", {}, one.name), one.in, linked(one.schema), one.required ? "always" : "optional", said];
    };
    shown.append(make("h4", {}, "Parameters"), table(["name", "in", "is", "", ""], parameters.map(row)));
  }
  for (const [type, content] of Object.entries(operation.requestBody?.content ?? {})) {
    shown.append(make("h4", {}, `Body: ${type}`));
    const schema = follow(api, content.schema);
    shown.append(schema.properties ? fields(schema) : make("p", {}, linked(content.schema)));
  }
  shown.append(make("h4", {}, "Answers"), answers(api, operation));
  shown.append(make("h4", {}, "Example"), make("pre", { tabindex: "0" }, make("code", {}, curl(api, path, verb, operation))));
  return shown;
}

function schemas(api) {
  const shown = Object.entries(api.components?.schemas ?? {}).map(([name, made]) => {
    const schema = whole(api, made);
    const article = make("article", { id: `schema-${name}` }, make("h3", {}, make("code", {}, name)));
    if (schema.description) article.append(prose(schema.description));
    article.append(schema.properties ? fields(schema) : make("p", {}, make("code", {}, kind(schema))));
    if (schema.properties) {
      const text = JSON.stringify(example(api, schema), null, 2);
      article.append(make("details", {}, make("summary", {}, "Example"), make("pre", { tabindex: "0" }, make("code", {}, text))));
    }
    return article;
  });
  return [make("h2", { id: "schemas" }, "Schemas"), ...shown];
}

function show(api) {
  document.getElementById("title").textContent = `${api.info.title} ${api.info.version}`;
  document.getElementById("about").replaceWith(prose(api.info.description));
  const calls = Object.entries(api.paths).flatMap(([path, item]) =>
    VERBS.filter((verb) => item[verb]).map((verb) => ({ path, verb, operation: item[verb] })),
  );
  const [index, place] = [document.getElementById("index"), document.getElementById("calls")];
  place.replaceChildren();
  for (const tag of api.tags ?? []) {
    const own = calls.filter(({ operation }) => operation.tags?.includes(tag.name));
    place.append(make("h2", {}, tag.name), prose(tag.description));
    const links = own.map(({ path, verb, operation }) => {
      const word = make("span", { class: `verb ${verb}` }, verb.toUpperCase());
      return make("li", {}, make("a", { href: `#${operation.operationId}` }, word, breaking(path)));
    });
    index.append(make("h2", {}, tag.name), make("ul", {}, ...links));
    place.append(...own.map(({ path, verb, operation }) => call(api, path, verb, operation)));
  }
  place.append(...schemas(api));
  index.append(make("ul", {}, make("li", {}, make("a", { href: "#schemas" }, "Schemas"))));
  if (location.hash) document.getElementById(location.hash.slice(1))?.scrollIntoView();
}

function find(event) {
  const wanted = event.target.value.trim().toLowerCase();
  for (const item of document.querySelectorAll("#index li, #calls article")) {
    item.hidden = wanted !== "" && !item.textContent.toLowerCase().includes(wanted);
  }
}

document.getElementById("filter").addEventListener("input", find);
fetch("openapi.json")
  .then((answer) => answer.json())
  .then(show)
  .catch((error) => document.getElementById("calls").replaceChildren(make("p", {}, `The description cannot be read: ${error.message}`)));

document.getElementById("origin").textContent = location.href.replace(/\/docs.*$/, "");
