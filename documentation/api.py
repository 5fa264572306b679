"""API reference, read from the OpenAPI document of the admin API."""

from collections.abc import Iterator, Mapping
from typing import Any, cast

from crawler.admin.routes import CrawlContext
from crawler.admin.server import create_api
from documentation.markdown import GENERATED, code, plain, table

_METHODS = ("get", "post", "put", "patch", "delete")

_HEAD = f"""{GENERATED}

# Admin API

Every call of the [admin API](../admin.md), which each crawl and `scrapy admin` serve.
[Examples](../admin.md#calls) of most calls are there. `/openapi.json` has the same for programs.

- Each call needs the token, as `Authorization: Bearer …`, except where it says "no token".
- A call that fails answers with problem details, as `application/problem+json`
  ([statuses](../admin.md#calls)).
- A parameter or field in bold is needed.
"""


def page() -> str:
    """Return the page."""
    document = create_api(cast(CrawlContext, None)).openapi()
    by_tag: dict[str, list[str]] = {}
    for path, operations in document["paths"].items():
        for method in _METHODS:
            if method in operations:
                operation = operations[method]
                tag = operation.get("tags", ["other"])[0]
                by_tag.setdefault(tag, []).append(_operation(method, path, operation))
    parts = [_HEAD]
    for tag, operations in by_tag.items():
        parts += [f"## {tag[:1].upper()}{tag[1:]}\n", *operations]
    models = document["components"]["schemas"]
    used = {name: model for name, model in sorted(models.items()) if "properties" in model}
    parts.append("## Models\n")
    parts += [_model(name, model) for name, model in used.items()]
    return "\n".join(parts)


def _operation(method: str, path: str, operation: Mapping[str, Any]) -> str:
    token = "" if operation.get("security") else " (no token)"
    about = " ".join(operation.get("description", "").split())
    parts = [f"### {method.upper()} {path}\n", f"{plain(about)}{token}\n"]
    if rows := [_parameter(parameter) for parameter in operation.get("parameters", ())]:
        parts.append(table(("parameter", "in", "type", "default", "meaning"), rows))
    if body := operation.get("requestBody"):
        parts.append(_content("Body", body))
    for status, response in operation["responses"].items():
        if status < "400":
            parts.append(_content(f"Answer {status}", response))
    return "\n".join(parts)


def _parameter(parameter: Mapping[str, Any]) -> tuple[str, ...]:
    name, schema = code(parameter["name"]), parameter["schema"]
    shown = f"**{name}**" if parameter.get("required") else name
    about = parameter.get("description") or schema.get("description", "")
    return shown, parameter["in"], _type(schema), _default(schema), plain(about)


def _content(what: str, part: Mapping[str, Any]) -> str:
    """Describe a body: its type, and what is said of it."""
    found = part.get("content", {})
    types = [
        f"{_type(content.get('schema', {}))}" + ("" if media.endswith("/json") else f" ({media})")
        for media, content in found.items()
    ]
    about = part.get("description", "") if what == "Body" else ""
    text = ", ".join(filter(None, types)) or "empty"
    return f"{what}: {text}{'. ' + plain(about) if about else ''}\n"


def _model(name: str, model: Mapping[str, Any]) -> str:
    required = set(model.get("required", ()))
    rows = [
        (
            f"**{code(field)}**" if field in required else code(field),
            _type(schema),
            _default(schema),
            plain(schema.get("description", "")),
        )
        for field, schema in model["properties"].items()
    ]
    about = plain(" ".join(model.get("description", "").split()))
    fields = table(("field", "type", "default", "meaning"), rows)
    return "\n".join(filter(None, [f"### {_anchor(name)}{name}\n", about and f"{about}\n", fields]))


def _anchor(name: str) -> str:
    # Tags have titles of the same names.
    return f'<a id="model-{name.lower()}"></a>'


def _default(schema: Mapping[str, Any]) -> str:
    return code(repr(schema["default"])) if schema.get("default") is not None else ""


def _type(schema: Mapping[str, Any]) -> str:
    """Describe the type of a value, with its bounds; other models are links."""
    if reference := schema.get("$ref"):
        name = reference.rpartition("/")[2]
        return f"[{name}](#model-{name.lower()})"
    if any_of := schema.get("anyOf"):
        return " or ".join(dict.fromkeys(map(_type, any_of)))
    if "enum" in schema:
        return ", ".join(code(str(value)) if value != "" else '`""`' for value in schema["enum"])
    if "const" in schema:
        return code(str(schema["const"]))
    kind = schema.get("type", "any")
    if kind == "array":
        return f"list of {_type(schema.get('items', {}))}"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"object of {_type(schema['additionalProperties'])}"
    return " ".join([schema.get("format", kind).replace("date-time", "time"), *_bounds(schema)])


def _bounds(schema: Mapping[str, Any]) -> Iterator[str]:
    least, most = schema.get("minimum"), schema.get("maximum")
    if least is not None and most is not None:
        yield f"{_number(least)} to {_number(most)}"
    elif least is not None:
        yield f"from {_number(least)}"
    elif most is not None:
        yield f"to {_number(most)}"
    if (above := schema.get("exclusiveMinimum")) is not None:
        yield f"above {_number(above)}"


def _number(value: float) -> str:
    return f"{int(value):,}" if value == int(value) else str(value)
