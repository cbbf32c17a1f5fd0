"""An authority that rotates so that no handshake fails, and certificates that a client really accepts."""

import ssl
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509

from scheduler_service.backends.kubernetes.admission.certificates import (
    AUTHORITY_LIFE,
    PUBLISHED_BEFORE,
    SERVING_LIFE,
    Authorities,
    Authority,
    advanced,
    new_authority,
    serving_certificate,
)
from scheduler_service.backends.kubernetes.admission.keeping import (
    NOBODY,
    _authorities,
    _data,
    asked_patch,
    trust_patch,
)

NOW = datetime(2030, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)
NAMES = ("admission.kai-scheduler.svc", "127.0.0.1")


def test_nothing_known_makes_an_authority_and_then_nothing_changes():
    first = advanced(None, NOW)
    assert advanced(first, NOW) is first
    assert advanced(first, NOW + AUTHORITY_LIFE / 2 - HOUR) is first


def test_rotation_publishes_before_it_signs_and_trusts_the_one_before():
    first = advanced(None, NOW)
    half = NOW + AUTHORITY_LIFE / 2
    published = advanced(first, half)
    assert published.current == first.current
    assert published.next is not None
    assert published.next.certificate in published.bundle()
    assert advanced(published, half + PUBLISHED_BEFORE / 2) is published

    promoted = advanced(published, half + PUBLISHED_BEFORE)
    assert promoted.current == published.next
    assert promoted.previous == first.current.certificate
    assert first.current.certificate in promoted.bundle()

    late = advanced(promoted, NOW + AUTHORITY_LIFE)
    assert late.previous == b""
    assert first.current.certificate not in late.bundle()


def test_months_of_rotation_never_leave_a_certificate_untrusted():
    """Who looks each hour: what signs now was trusted an hour ago, and all that still serves is trusted."""
    known = advanced(None, NOW)
    signed = {known.current.certificate: NOW}
    for hour in range(1, 24 * 100):
        now, before = NOW + hour * HOUR, known.bundle()
        known = advanced(known, now)
        assert known.current.certificate in before
        signed[known.current.certificate] = now
        still_serving = [by for by, last in signed.items() if now - last < SERVING_LIFE]
        assert all(by in known.bundle() for by in still_serving)
    assert len(signed) > 5


@pytest.mark.parametrize(
    "life", [AUTHORITY_LIFE, AUTHORITY_LIFE - SERVING_LIFE / 2, AUTHORITY_LIFE * 3]
)
def test_an_authority_that_ran_out_is_replaced_at_once(life):
    first = advanced(None, NOW)
    assert advanced(first, NOW + life).current != first.current


@pytest.mark.parametrize(
    "broken",
    [
        Authority(b"none", b"none"),
        Authority(new_authority(NOW).certificate, b"none"),
        Authority(new_authority(NOW).certificate, new_authority(NOW).key),
        new_authority(NOW + timedelta(days=1)),
    ],
)
def test_what_can_not_sign_now_is_replaced(broken):
    assert advanced(Authorities(broken), NOW).current != broken


def test_a_broken_next_is_forgotten():
    first = advanced(None, NOW)
    spoilt = replace(first, next=Authority(b"x", b"y"))
    assert advanced(spoilt, NOW) == first


def handshake(bundle, serving, name):
    """A TLS handshake in memory, as an API server makes it."""
    client = ssl.create_default_context(cadata=bundle.decode())
    client.verify_flags |= ssl.VERIFY_X509_STRICT
    server = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    load(server, serving)
    a, b = ssl.MemoryBIO(), ssl.MemoryBIO()
    sides = [
        client.wrap_bio(a, b, server_hostname=name),
        server.wrap_bio(b, a, server_side=True),
    ]
    for _ in range(6):
        for side in sides:
            try:
                side.do_handshake()
            except ssl.SSLWantReadError:
                continue
    return sides[0].version()


def load(context, serving):
    from scheduler_service.backends.kubernetes.admission.process import _load

    _load(context, serving)


@pytest.mark.parametrize("name", NAMES)
def test_a_client_accepts_the_certificate_for_every_name(name):
    now = datetime.now(UTC)
    known = advanced(None, now)
    assert (
        handshake(known.bundle(), serving_certificate(known.current, NAMES, now), name) == "TLSv1.3"
    )


def test_a_client_refuses_other_names_and_other_authorities():
    now = datetime.now(UTC)
    known, other = advanced(None, now), advanced(None, now)
    serving = serving_certificate(known.current, NAMES, now)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(known.bundle(), serving, "elsewhere")
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(other.bundle(), serving, NAMES[0])


def test_a_certificate_lives_a_day_at_most_and_never_longer_than_its_authority():
    known = advanced(None, NOW)
    whole = serving_certificate(known.current, NAMES, NOW)
    assert whole.renew_at == NOW + SERVING_LIFE / 2
    last = serving_certificate(known.current, NAMES, NOW + AUTHORITY_LIFE - HOUR)
    assert (
        x509.load_pem_x509_certificate(last.certificate).not_valid_after_utc == NOW + AUTHORITY_LIFE
    )


def test_what_is_stored_is_read_back():
    known = advanced(advanced(None, NOW), NOW + AUTHORITY_LIFE / 2)
    assert _authorities(_data(known)) == known
    assert _authorities({}) is None
    assert _authorities({"ca.crt": "!", "ca.key": "!"}) is None


def test_only_webhooks_that_do_not_trust_us_are_patched():
    configuration = {
        "webhooks": [
            {"name": "a", "clientConfig": {"caBundle": "new"}},
            {"name": "b", "clientConfig": {"caBundle": "old"}},
            {"name": "c"},
        ]
    }
    assert trust_patch(configuration, "new") == [
        {"op": "test", "path": "/webhooks/1/name", "value": "b"},
        {"op": "add", "path": "/webhooks/1/clientConfig/caBundle", "value": "new"},
        {"op": "test", "path": "/webhooks/2/name", "value": "c"},
        {"op": "add", "path": "/webhooks/2/clientConfig/caBundle", "value": "new"},
    ]


def test_a_webhook_that_is_not_needed_asks_nobody_until_it_is():
    hooks = [{"name": "always"}, {"name": "sometimes", "objectSelector": {}}]
    off = asked_patch({"webhooks": hooks}, {"sometimes": False})
    assert off == [
        {"op": "test", "path": "/webhooks/1/name", "value": "sometimes"},
        {"op": "add", "path": "/webhooks/1/objectSelector", "value": NOBODY},
    ]
    hooks[1]["objectSelector"] = NOBODY
    assert asked_patch({"webhooks": hooks}, {"sometimes": False}) == []
    assert asked_patch({"webhooks": hooks}, {}) == []
    (_, on) = asked_patch({"webhooks": hooks}, {"sometimes": True})
    assert on == {"op": "add", "path": "/webhooks/1/objectSelector", "value": {}}
