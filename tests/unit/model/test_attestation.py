import json

import pytest

from pylaunch.model.attestation import Attestation, HostRecord, parse

RECORD = HostRecord({"system": {"kernel": "6.1", "os": "Debian"}}, {"hostname": "n1"})
MADE = Attestation("2026-01-01T00:00:00Z", "0.1.0", {"n1": RECORD, "n2": HostRecord(RECORD.facts, {"hostname": "n2"})})


def test_hosts_that_are_the_same_have_the_same_digest_whoever_they_are() -> None:
    assert MADE.hosts["n1"].digest == MADE.hosts["n2"].digest


def test_the_digest_does_not_depend_on_the_order_in_which_facts_came() -> None:
    assert HostRecord({"system": {"os": "Debian", "kernel": "6.1"}}).digest == RECORD.digest


def test_a_document_is_read_as_it_was_sealed() -> None:
    assert parse(MADE.text) == MADE


def test_a_fact_changed_afterwards_breaks_the_seal_of_its_host() -> None:
    with pytest.raises(ValueError, match="the record of n1, n2 was changed after it was sealed"):
        parse(MADE.text.replace('"6.1"', '"6.8"'))


def test_a_host_taken_out_or_a_time_changed_breaks_the_seal_of_the_whole() -> None:
    document = json.loads(MADE.text)
    del document["hosts"]["n2"]
    for text in (json.dumps(document), MADE.text.replace("2026", "2027")):
        with pytest.raises(ValueError, match="it was changed after it was sealed"):
            parse(text)


@pytest.mark.parametrize("text", ["[]", "{}", '{"schema": 1}', '{"schema": 1, "hosts": {"n1": 3}}'])
def test_what_is_no_attestation_is_refused_as_such(text: str) -> None:
    with pytest.raises(ValueError, match="not an attestation"):
        parse(text)
