"""Croissant metadata of a built folder, with the fields for responsible AI, for catalogues and reviewers.

It comes from the same declarations as the card. ``templates/responsible_ai.toml`` describes, for each source, the
annotators and how they were asked.
"""

from __future__ import annotations

import json
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import datasets
import pyarrow as pa

from cxc_eccv.builders.cards import AUTHORS, IMAGE_FIELD, LANGUAGE, TAGS, TEMPLATES, TITLE, bibtex, sources_of, terms
from cxc_eccv.builders.output import BuildSummary, SplitSummary
from cxc_eccv.sources.catalog import OFFICIAL, Catalog

CROISSANT = "croissant.json"

CONTEXT = json.loads((TEMPLATES / "croissant_context.json").read_text(encoding="utf-8"))
"""The context of Croissant 1.0, as in its specification."""

CONFORMS_TO = ("http://mlcommons.org/croissant/1.0", "http://mlcommons.org/croissant/RAI/1.0")

PARQUET = "application/x-parquet"

DATA_TYPES = (
    (pa.types.is_boolean, "sc:Boolean"),
    (pa.types.is_integer, "sc:Integer"),
    (pa.types.is_floating, "sc:Float"),
    (pa.types.is_string, "sc:Text"),
)

Json = dict[str, Any]


def croissant_text(summary: BuildSummary, catalog: Catalog) -> str:
    """The text of ``croissant.json``: files with hashes, a record set for each config, and the fields for RAI."""
    configs = [parts[0].config for parts in summary.configs.values()]
    groups = sources_of(configs)
    content = {
        "@context": CONTEXT,
        "@type": "sc:Dataset",
        "conformsTo": CONFORMS_TO,
        "name": "cxc_eccv",
        "alternateName": TITLE,
        "description": "\n".join([*_warnings(summary), *(f"{item.name}: {item.description}" for item in configs)]),
        "creator": {"@type": "sc:Organization", "name": AUTHORS},
        "license": [f"{title}: {licence}" for title, _, licence in terms(groups, catalog, summary.provenance.sources)],
        "citeAs": bibtex(groups, catalog),
        "inLanguage": LANGUAGE,
        "keywords": TAGS,
        "version": summary.provenance.data_version,
        **_responsible_ai(summary, groups),
        "distribution": [item for parts in summary.configs.values() for item in _files(parts)],
        "recordSet": [_record_set(parts) for parts in summary.configs.values()],
    }
    return json.dumps(content, indent=2, ensure_ascii=False) + "\n"


def _warnings(summary: BuildSummary) -> list[str]:
    """Warnings that the data is not the published data; empty if it is."""
    edition, modified = summary.provenance.edition, ", ".join(summary.provenance.modified)
    warnings = []
    if edition != OFFICIAL:
        warnings.append(
            f"This is the edition {edition}, which is not the published data: the descriptions of collection, "
            "annotators and known defects are of the official edition."
        )
    if modified:
        warnings.append(f"Built from modified raw files ({modified}): this is not the published data.")
    return warnings


def _responsible_ai(summary: BuildSummary, groups: Sequence[str]) -> Json:
    """The ``rai:`` properties: from the configs and the build, then those of each source."""
    known = tomllib.loads((TEMPLATES / "responsible_ai.toml").read_text(encoding="utf-8"))
    configs = [parts[0].config for parts in summary.configs.values()]
    options, provenance = summary.options, summary.provenance
    properties: dict[str, Any] = {
        "dataCollection": "\n".join(f"{config.name}: {config.collection}" for config in configs),
        "dataLimitations": [
            *_warnings(summary),
            *(f"{config.name}: {defect}" for config in configs for defect in config.defects),
        ],
        "dataPreprocessingProtocol": [
            f"Contradicting sources: policy {options.policy}. Lowest positive ratings: STS {options.sts}, "
            f"SIS {options.sis}, SITS {options.sits}.",
            *(
                f"Left out of {'/'.join(place)}: {rule}: {number}"
                for (*place, rule), number in summary.left_out.items()
            ),
        ],
        "dataUseCases": [
            "Evaluation of image-text, text-text and image-image retrieval, and of graded similarity, on MS-COCO.",
            "Do not train on validation and test if you compare with published numbers, which are computed on them.",
        ],
        "dataCollectionType": ["Secondary Data Analysis"],
        "dataReleaseMaintenancePlan": f"Built by cxc_eccv {provenance.package_version} from raw files of the edition "
        f"{provenance.edition}, version {provenance.data_version}; manifest.json has the sha256 of each; their "
        f"joint sha256 is {provenance.fingerprint}. Building again gives the same bytes.",
    }
    for statements in (known[group] for group in groups if group in known):
        for name, statement in statements.items():
            if isinstance(statement, list):
                properties[name] = list(dict.fromkeys([*properties.get(name, []), *statement]))
            else:
                properties[name] = "\n".join([*filter(None, [properties.get(name)]), statement])
    return {f"rai:{name}": properties[name] for name in sorted(properties)}


def _files(parts: Sequence[SplitSummary]) -> Iterator[Json]:
    """Every Parquet file of a config, and the set of them that its record set is read from."""
    config = parts[0].config.name
    for part in parts:
        shards = part.shards
        for name, size, sha256 in zip(shards.files, shards.sizes, shards.sha256, strict=True):
            path = f"{config}/{name}"
            yield {
                "@type": "cr:FileObject",
                "@id": path,
                "name": path,
                "contentUrl": path,
                "contentSize": f"{size} B",
                "encodingFormat": PARQUET,
                "sha256": sha256,
            }
    yield {
        "@type": "cr:FileSet",
        "@id": f"{config}-files",
        "name": f"{config}-files",
        "encodingFormat": PARQUET,
        "includes": f"{config}/*.parquet",
    }


def _record_set(parts: Sequence[SplitSummary]) -> Json:
    config, features = parts[0].config, parts[0].features
    described = {**config.fields, "image": IMAGE_FIELD}
    columns = [
        _field(config.name, field, features[field.name], described[field.name]) for field in features.arrow_schema
    ]
    return {
        "@type": "cr:RecordSet",
        "@id": config.name,
        "name": config.name,
        "description": config.title,
        "field": columns if "split" in features else [_split_of_file(config.name), *columns],
    }


def _split_of_file(config: str) -> Json:
    return {
        "@type": "cr:Field",
        "@id": f"{config}/split",
        "name": "split",
        "description": "the split, from the file name",
        "dataType": ["sc:Text", "cr:Split"],
        "source": {
            "fileSet": {"@id": f"{config}-files"},
            "extract": {"fileProperty": "fullpath"},
            "transform": {"regex": rf"{config}/([a-z]+)-.+\.parquet$"},
        },
    }


def _field(config: str, column: pa.Field, feature: object, description: str) -> Json:
    """The field of a column; lists are repeated fields, records have sub-fields."""
    source = {"fileSet": {"@id": f"{config}-files"}, "extract": {"column": column.name}}
    field = {"@type": "cr:Field", "@id": f"{config}/{column.name}", "name": column.name, "description": description}
    if isinstance(feature, datasets.Image):
        return {**field, "dataType": "sc:ImageObject", "source": {**source, "transform": {"jsonPath": "bytes"}}}
    if isinstance(feature, datasets.ClassLabel):
        values = ", ".join(f"{number}: {name}" for number, name in enumerate(feature.names))
        field["description"] = f"{description} ({values})"
    return field | _typed(column.type, f"{config}/{column.name}", source)


def _typed(kind: pa.DataType, place: str, source: Mapping[str, Any]) -> Json:
    """Type, source and sub-fields of a column, or of a field of its records."""
    repeated = {"repeated": True} if pa.types.is_list(kind) else {}
    inner = kind.value_type if repeated else kind
    if pa.types.is_struct(inner):
        parts = [
            {"@type": "cr:Field", "@id": f"{place}/{part.name}", "name": part.name}
            | _typed(part.type, f"{place}/{part.name}", {**source, "transform": {"jsonPath": part.name}})
            for part in inner
        ]
        return {**repeated, "subField": parts}
    data_type = next(name for holds, name in DATA_TYPES if holds(inner))
    return {**repeated, "dataType": data_type, "source": source}
