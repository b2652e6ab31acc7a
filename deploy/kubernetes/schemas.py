#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0

"""Writes strict JSON schemas for kubeconform from Kubernetes' OpenAPI file.

schemas.py SWAGGER.json FOLDER

One file for each kind, named as kubeconform's {{.ResourceKind}}{{.KindSuffix}}
asks. "Strict" means that a field the API does not know is an error, which is
what the API server's own server-side validation says too. References are
written out; a type that contains itself (only in CustomResourceDefinition)
is left open at the second visit.
"""

import json
import os
import sys

# Types that the OpenAPI file describes by less than the API server accepts.
SCALARS = {
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString": ["string", "integer"],
    "io.k8s.apimachinery.pkg.api.resource.Quantity": ["string", "number"],
}


def expand(node, definitions, above):
    """A copy of `node` with references replaced and closed objects."""
    if isinstance(node, list):
        return [expand(item, definitions, above) for item in node]
    if not isinstance(node, dict):
        return node
    reference = node.get("$ref")
    if isinstance(reference, str):
        name = reference.rpartition("/")[2]
        if name in SCALARS:
            return {"type": SCALARS[name]}
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


def require_identity(schema, kind):
    """The API server refuses an object without these."""
    group = f"{kind['group']}/" if kind["group"] else ""
    properties = schema["properties"]
    properties["apiVersion"] = {"const": group + kind["version"]}
    properties["kind"] = {"const": kind["kind"]}
    schema["required"] = sorted(
        {*schema.get("required", []), "apiVersion", "kind"}
    )


def main(swagger, folder):
    with open(swagger, encoding="utf-8") as file:
        definitions = json.load(file)["definitions"]
    os.makedirs(folder, exist_ok=True)
    written = 0
    for name, definition in definitions.items():
        kinds = definition.get("x-kubernetes-group-version-kind", [])
        # Shared types such as DeleteOptions belong to many kinds.
        if len(kinds) != 1 or "metadata" not in definition["properties"]:
            continue
        schema = expand(definition, definitions, {name})
        require_identity(schema, kinds[0])
        group = kinds[0]["group"].partition(".")[0]
        parts = [kinds[0]["kind"], group, kinds[0]["version"]]
        file_name = "-".join(filter(None, parts)).lower() + ".json"
        path = os.path.join(folder, file_name)
        with open(path, "w", encoding="utf-8") as file:
            json.dump(schema, file)
        written += 1
    if not written:
        raise SystemExit(f"{swagger}: no kind found")
    print(f"{written} kinds")


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    main(*sys.argv[1:])
