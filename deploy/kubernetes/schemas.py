#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Makes strict JSON schemas of Kubernetes' own description of its API.

schemas.py SWAGGER.json FOLDER

Writes FOLDER/KIND-GROUP-VERSION.json for each kind, as kubeconform wants it.
References are replaced by what they refer to. Fields that are not described are
errors. A type that contains itself (as in CustomResourceDefinition) is left open
at the second visit.
"""

import json
import pathlib
import sys

# Types that the OpenAPI file describes by less than the API server accepts.
SCALARS = {"IntOrString": ["string", "integer"], "Quantity": ["string", "number"]}


def expand(node, definitions, above):
    """A copy of `node` with references replaced and closed objects."""
    if isinstance(node, list):
        return [expand(item, definitions, above) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if (scalar := name.rpartition(".")[2]) in SCALARS:
            return {"type": SCALARS[scalar]}
        if name in above:
            return {}
        return expand(definitions[name], definitions, above | {name})
    copy = {
        key: expand(value, definitions, above)
        for key, value in node.items()
        if key not in ("description", "properties")
        and not key.startswith("x-kubernetes-")
    }
    if "properties" in node:
        # Its keys are field names: one may well be called "description".
        copy["properties"] = {
            field: expand(schema, definitions, above)
            for field, schema in node["properties"].items()
        }
        copy.setdefault("additionalProperties", False)
    return copy


def main(swagger, folder):
    definitions = json.loads(pathlib.Path(swagger).read_text())["definitions"]
    out = pathlib.Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    for name, definition in definitions.items():
        kinds = definition.get("x-kubernetes-group-version-kind", [])
        # Shared types such as DeleteOptions belong to many kinds.
        if len(kinds) != 1 or "metadata" not in definition["properties"]:
            continue
        group, version, kind = (kinds[0][k] for k in ("group", "version", "kind"))
        schema = expand(definition, definitions, {name})
        # The API server refuses an object without these.
        schema["required"] = sorted(
            {*schema.get("required", []), "apiVersion", "kind"}
        )
        schema["properties"] |= {
            "apiVersion": {"const": f"{group}/{version}".lstrip("/")},
            "kind": {"const": kind},
        }
        parts = filter(None, [kind, group.partition(".")[0], version])
        (out / ("-".join(parts).lower() + ".json")).write_text(json.dumps(schema))
    print(f"{len(list(out.iterdir()))} kinds")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
