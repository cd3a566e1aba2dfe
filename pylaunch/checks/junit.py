"""The result of a check of hosts as a JUnit report. Pure."""

import xml.etree.ElementTree as ElementTree

from pylaunch.checks.result import Result
from pylaunch.model.diagnosis.finding import Finding, Severity


def junit(found: Result) -> str:
    """Return the result as JUnit XML: a test case for every check on every host.

    A failure fails its case, what could not be measured is an error, a warning or a note is the case's output.
    """
    cases = {(check, host): _Case() for check in found.checks for host in found.hosts}
    for finding in found.findings:
        for host in finding.hosts:
            cases.setdefault((finding.check, host), _Case()).findings.append(finding)
    for check, hosts in found.not_looked_at.items():
        for host in hosts:
            cases.setdefault((check, host), _Case()).is_silent = True
    failures = sum(any(each.severity is Severity.FAIL for each in case.findings) for case in cases.values())
    errors = sum(case.is_error for case in cases.values())
    suite = ElementTree.Element(
        "testsuite",
        name="pylaunch check",
        tests=str(len(cases)),
        failures=str(failures),
        errors=str(errors),
        time=f"{found.seconds:.3f}",
    )
    for (check, host), case in cases.items():
        element = ElementTree.SubElement(suite, "testcase", classname=check, name=host)
        case.fill(element)
    ElementTree.indent(suite)
    return ElementTree.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"


class _Case:
    """One check on one host."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.is_silent = False
        """The host did not answer all questions of the check."""

    @property
    def is_error(self) -> bool:
        severities = {finding.severity for finding in self.findings}
        return (self.is_silent or Severity.UNKNOWN in severities) and Severity.FAIL not in severities

    def fill(self, element: ElementTree.Element) -> None:
        tags = {Severity.FAIL: "failure", Severity.UNKNOWN: "error"}
        if self.is_silent and not any(finding.severity in tags for finding in self.findings):
            ElementTree.SubElement(element, "error", message="not looked at: the host gave no answer")
        for finding in self.findings:
            body = "\n".join([*finding.evidence, *([f"fix: {finding.fix}"] if finding.fix else [])])
            if finding.severity in tags:
                ElementTree.SubElement(
                    element, tags[finding.severity], message=_printable(finding.text)
                ).text = _printable(body)
            else:
                output = ElementTree.SubElement(element, "system-out")
                output.text = _printable("\n".join([f"{finding.severity.value}: {finding.text}", body]))


def _printable(text: str) -> str:
    """Return the text without control characters, which XML cannot represent."""
    return "".join(character if character.isprintable() or character in "\n\t" else "�" for character in text)
