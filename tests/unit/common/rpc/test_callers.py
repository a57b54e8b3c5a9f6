"""Identities in certificates, as Python's `ssl` gives them."""

from trimtab.common.rpc.callers import peer_identities


def test_a_certificate_names_its_uris_hosts_and_common_name_and_nothing_that_looks_like_another_kind() -> None:
    certificate = {
        "subject": ((("countryName", "DE"),), (("commonName", "loop"),)),
        "subjectAltName": (
            ("DNS", "loop.example"),
            ("URI", "spiffe://trimtab/loop"),
            ("URI", "cn:admin"),
            ("URI", "system:serviceaccount:a:b"),
            ("IP Address", "127.0.0.1"),
        ),
    }
    assert peer_identities(certificate) == ("spiffe://trimtab/loop", "dns:loop.example", "cn:loop")
    assert peer_identities({}) == ()
