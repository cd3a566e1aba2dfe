import pytest

from pylaunch.inventory import keys


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (0, (0,)),
        ([0, 1], (0, 1)),
        ("0,1", (0, 1)),
        ("4-7", (4, 5, 6, 7)),
        ("6, 0-2", (6, 0, 1, 2)),
        (["0-1", 5], (0, 1, 5)),
        ([], ()),
    ],
)
def test_devices_are_numbers_ranges_and_lists_of_them_in_the_order_written(
    value: object, expected: tuple[int, ...]
) -> None:
    assert keys.devices(value) == expected


@pytest.mark.parametrize("value", ["first", "3-1", True, {"0": 1}, [[0]], "-1", "1.5", [None], "0-2,1"])
def test_devices_that_are_not_numbers_or_named_twice_are_refused_with_the_value(value: object) -> None:
    with pytest.raises(ValueError, match="device 1 is named twice in '0-2,1'" if value == "0-2,1" else "got "):
        keys.devices(value)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("rack1/switch3", ("rack1", "switch3")),
        ("pod-2/r.1/s_7", ("pod-2", "r.1", "s_7")),
        ("rack1", ("rack1",)),
        (7, ("7",)),
    ],
)
def test_a_topology_is_names_from_the_outside_in(value: object, expected: tuple[str, ...]) -> None:
    assert keys.topology(value) == expected


@pytest.mark.parametrize(
    "value", ["", "/", "rack1/", "/rack1", "rack1//s1", "rack 1", "rack1/ s1", True, ["rack1"], None]
)
def test_an_invalid_topology_is_refused_with_the_value(value: object) -> None:
    with pytest.raises(ValueError, match=r"expected names from the outside in, such as rack1/switch3, got "):
        keys.topology(value)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("pylaunch_gpu_count", ""),
        ("gpu", "gpus"),
        ("GPUS", "gpus"),
        ("device", "devices"),
        ("interfaces", "interface"),
        ("fabric-address", "fabric_address"),
        ("ansible_hots", "ansible_host"),
        ("ansible_sserr", None),
        ("ansible_pott", "ansible_port"),
        ("cpus", None),
        ("bank", None),
        ("ansible_scp_extra_args", None),
        ("ansible_become_user", None),
        ("http_proxy", None),
    ],
)
def test_a_name_one_letter_off_a_key_is_a_mistake_and_another_word_is_not(name: str, meant: str | None) -> None:
    expected = f"unknown key; did you mean {meant}?" if meant else "unknown key" if meant == "" else None
    assert keys.complaint_about_name(name) == expected


@pytest.mark.parametrize("name", [*keys.KEYS, *keys.ALIASES])
def test_no_known_name_is_a_misspelling_of_another(name: str) -> None:
    assert keys.complaint_about_name(name) is None


def test_ansible_s_automatic_python_leaves_the_choice_to_pylaunch() -> None:
    assert keys.interpreter("auto_silent") is None
    assert keys.interpreter("/usr/bin/python3.12") == "/usr/bin/python3.12"
