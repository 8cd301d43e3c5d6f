"""Numbers with units are printed as a person reads them, and amounts are not guessed."""

import pytest

import penstock
from penstock.runs import show


@pytest.mark.parametrize(
    ("key", "value", "text"),
    [
        ("goodput_bps", 1.654e14, "165.4 Tb/s"),
        ("goodput_bps", 1.654e17, "165,400 Tb/s"),
        ("goodput_bps", 9.4e8, "940 Mb/s"),
        ("goodput_bps", 0.5, "0.5 b/s"),
        ("goodput_bps", 0.0, "0 b/s"),
        ("duration_s", 1598400e-9, "1.598 ms"),
        ("duration_s", 123456.0, "123,456 s"),
        ("duration_s", 2e-12, "0.002 ns"),
        ("duration_s", 0.0, "0 s"),
        ("queue_mean_bytes", 47487.0, "47.49 KB"),
        ("queue_mean_bytes", 1460.0, "1460 B"),
        ("queue_mean_bytes", 0.0, "0 B"),
        ("drops", 1654000.0, "1,654,000"),
        ("arrivals_per_s", 654321.5, "654,322"),
    ],
)
def test_summary_values_have_units_without_exponents(key, value, text):
    assert show(key, value) == text


@pytest.mark.parametrize("value", [20, 100, "20"])
def test_a_bare_number_of_python_is_neither_bytes_nor_packets(value):
    with pytest.raises(penstock.ScenarioError, match=rf"{value}pkt or {value}B"):
        penstock.run("incast", buffer=value)
