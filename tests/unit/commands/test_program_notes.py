from __future__ import annotations

from inferplan.commands.screen import note
from inferplan.planning.notes import program_notes
from inferplan.pulumi_engine.recording import Diagnostic, Recording


def test_a_message_of_the_program_names_its_resource(capsys):
    urn = "urn:pulumi:s::inferplan::inferplan:serving:RayServeService::chat"
    said = (
        Diagnostic(severity="info", message="chat: upgradeStrategy None", urn=urn),
        Diagnostic(severity="info", message="no [room]", urn=urn),
        Diagnostic(severity="warning", message="as a whole"),
    )
    note(
        program_notes(Recording(project="inferplan", stack="s", registrations=(), diagnostics=said))
    )
    printed = capsys.readouterr()
    assert (
        printed.err == "note: chat: upgradeStrategy None\nnote: chat: no [room]\nnote: as a whole\n"
    )
    assert printed.out == ""
