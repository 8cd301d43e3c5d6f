"""The check of imports: it finds circles and imports upwards, through any spelling, and nothing else."""

import importlib.util
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_spec = importlib.util.spec_from_file_location("layers", ROOT / "tools" / "layers.py")
layers = importlib.util.module_from_spec(_spec)
sys.modules["layers"] = layers
_spec.loader.exec_module(layers)


def crate(folder, **files):
    """A crate of these files; `__` in a name is a folder."""
    for name, text in files.items():
        path = folder / (name.replace("__", "/") + ".rs")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return layers.Crate("own", folder)


def imported(found):
    """The imports of a crate, as pairs of names of modules."""
    name = {path: module.name for path, module in found.modules.items()}
    return {(name[here], name[to]) for here, all_of in found.imports().items() for to in all_of}


def said(folder, found, of=None, exceptions=()):
    return [str(fault) for fault in layers.faults(found, of or {}, exceptions, folder)]


def test_our_crates_pass():
    found = [layers.faults(crate, layers.LAYERS.get(crate.name, {})) for crate in layers.crates()]
    assert [str(fault) for faults in found for fault in faults] == []


def test_each_module_of_a_layered_crate_exists():
    for name, of in layers.LAYERS.items():
        known = {
            module.name for module in layers.Crate(name, ROOT / "crates" / name / "src").modules.values()
        }
        assert {module for modules in of.values() for module in modules} <= known


@pytest.mark.parametrize(
    "text",
    [
        "use crate::b::Thing;",
        "use crate::{b::{Other, Thing as It}};",
        "use super::b::Thing;",
        "use crate::b; fn f(_: b::Thing) {}",
        "fn f(_: crate::b::Thing) {}",
        "use crate::b::*;",
        "use crate::names::Thing;",
        "pub use crate::b::Thing; fn f(_: Thing) {}",
    ],
)
def test_an_import_is_found_however_it_is_spelt(tmp_path, text):
    found = crate(
        tmp_path,
        lib="mod a; mod b; mod names;",
        a=text,
        b="pub struct Thing;\npub struct Other;",
        names="pub use crate::b::Thing;",
    )
    assert imported(found) == {("a", "b")}


@pytest.mark.parametrize(
    "text",
    [
        "pub use crate::b::Thing;",
        "pub use crate::b::make; fn f(x: X) { let make = x.make(); }",
        "// use crate::b::Thing;\n/* crate::b::Thing */",
        'const TEXT: &str = "crate::b::Thing";',
        "#[cfg(test)]\nmod tests {\n    use crate::b::Thing;\n    fn f() { {} }\n}",
        "use core::b::Thing;",
        "mod c;",
    ],
)
def test_what_is_no_import_is_none(tmp_path, text):
    assert (
        imported(crate(tmp_path, lib="mod a; mod b;", a=text, b="pub struct Thing;\npub fn make() {}"))
        == set()
    )


def test_a_circle_is_a_fault_at_each_of_its_imports(tmp_path):
    found = crate(
        tmp_path,
        lib="mod a; mod b; mod c;",
        a="\nuse crate::b::B;\npub struct A;",
        b="use crate::c::C;\npub struct B;",
        c="use crate::a::A;\npub struct C;",
    )
    faults = said(tmp_path, found)
    assert len(faults) == 3
    assert faults[0].startswith("a.rs:2: a imports B of b, which imports a")


def test_a_child_that_imports_from_its_parent_must_not_be_used_there(tmp_path):
    used = crate(
        tmp_path,
        lib="mod a;",
        a__mod="mod b;\nuse b::B;\npub struct A(B);",
        a__b="use super::A;\npub struct B;",
    )
    assert len(said(tmp_path, used)) == 2
    named = crate(tmp_path, a__mod="mod b;\npub use b::B;\npub struct A;")
    assert said(tmp_path, named) == []


def test_an_import_upwards_is_a_fault_and_downwards_or_beside_none(tmp_path):
    found = crate(
        tmp_path,
        lib="mod low; mod beside; mod high;",
        low="use crate::high::High;\npub struct Low;",
        beside="use crate::low::Low;",
        high="pub struct High;",
    )
    of = {"down": ("low", "beside"), "up": ("high",)}
    assert said(tmp_path, found, of) == ["low.rs:1: low (down) imports High of high, a layer above (up)"]
    assert said(tmp_path, found, {"down": ("high",), "up": ("low", "beside")}) == []


def test_a_module_without_a_layer_is_a_fault(tmp_path):
    found = crate(tmp_path, lib="mod a; mod b;", a="", b="")
    assert said(tmp_path, found, {"down": ("a",)}) == ["b.rs:1: b is in no layer: name it in LAYERS"]


def test_an_exception_allows_an_import_and_is_a_fault_when_it_allows_none(tmp_path):
    files = {
        "lib": "mod a; mod b;",
        "a__mod": "mod c;\npub struct A;",
        "a__c": "use crate::b::B;",
        "b": "pub struct B;",
    }
    found = crate(tmp_path, **files)
    of = {"down": ("a",), "up": ("b",)}
    assert len(said(tmp_path, found, of)) == 1
    assert said(tmp_path, found, of, (("own", "a", "b"),)) == []
    (fault,) = said(tmp_path, found, {}, (("own", "b", "a"),))
    assert fault == "tools/layers.py: own: b imports a no more: take it out of EXCEPTIONS"
