"""Sign-in, one-time links, tokens, audit."""

import contextlib
import datetime
import hashlib

import pytest
from django.contrib.auth.models import User

from console.access import selectors, services
from console.access.errors import LinkInvalid, TokenInvalid, TooManyAttempts, WrongCredentials
from console.access.models import ApiToken, AuditEvent, SignInFailure, SignInLink
from console.access.session import attempts

pytestmark = pytest.mark.django_db
NOW = datetime.datetime(2026, 11, 21, 12, 0, tzinfo=datetime.UTC)
MINUTE = datetime.timedelta(minutes=1)


@pytest.fixture
def alice() -> User:
    return User.objects.create_superuser("alice", password="a long enough one")


def sign_in(username: str, password: str, *, addr: str = "10.0.0.1", now: datetime.datetime = NOW) -> User:
    return services.sign_in(None, username=username, password=password, remote_addr=addr, now=now)


# --- People ---


def test_it_starts_with_one_administrator_without_a_password() -> None:
    person = services.ensure_first_person()
    assert (person.username, person.is_superuser, person.has_usable_password()) == ("admin", True, False)
    assert services.ensure_first_person() == person
    assert User.objects.count() == 1


def test_it_makes_nobody_where_an_administrator_is(alice: User) -> None:
    assert services.ensure_first_person() == alice


def test_it_signs_in_and_writes_it_down(alice: User) -> None:
    assert sign_in("alice", "a long enough one") == alice
    event = AuditEvent.objects.get()
    assert (event.actor, event.verb, event.remote_addr, event.at) == ("alice", "sign in", "10.0.0.1", NOW)


@pytest.mark.parametrize(
    ("name", "password"), [("alice", "wrong"), ("nobody", "a long enough one"), ("alice", "")]
)
def test_it_refuses_wrong_credentials_without_saying_what_was_right(
    alice: User, name: str, password: str
) -> None:
    with pytest.raises(WrongCredentials, match="Name and password do not match"):
        sign_in(name, password)


def test_it_closes_sign_in_after_five_wrong_passwords(alice: User) -> None:
    for number in range(5):
        with pytest.raises(WrongCredentials):
            sign_in("alice", "wrong", now=NOW + number * MINUTE / 10)
    with pytest.raises(TooManyAttempts) as refused:
        sign_in("alice", "a long enough one", now=NOW + MINUTE)
    assert refused.value.retry_after_s == 240
    assert sign_in("alice", "a long enough one", addr="10.0.0.2", now=NOW + MINUTE) == alice
    assert sign_in("alice", "a long enough one", now=NOW + 5 * MINUTE) == alice


def test_it_closes_sign_in_for_an_address_that_tries_many_names(alice: User) -> None:
    for number in range(20):
        with pytest.raises(WrongCredentials):
            sign_in(f"guess-{number}", "wrong")
    with pytest.raises(TooManyAttempts):
        sign_in("alice", "a long enough one")


def test_it_closes_sign_in_for_a_name_tried_from_many_addresses(alice: User) -> None:
    for number in range(50):
        with pytest.raises(WrongCredentials):
            sign_in("alice", "wrong", addr=f"10.1.0.{number}")
    with pytest.raises(TooManyAttempts):
        sign_in("alice", "a long enough one", addr="10.2.0.1")


def test_it_forgets_failures_that_no_longer_count(alice: User) -> None:
    with pytest.raises(WrongCredentials):
        sign_in("alice", "wrong")
    with pytest.raises(WrongCredentials):
        sign_in("alice", "wrong", now=NOW + 6 * MINUTE)
    assert [failure.at for failure in SignInFailure.objects.all()] == [NOW + 6 * MINUTE]


def test_attempts_at_the_same_moment_pass_no_limit(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty attempts of which each begins while the one before still looks at its password."""
    looked_at: list[str] = []

    def slow(request: object, *, username: str, password: str) -> None:
        looked_at.append(password)
        if int(password) < 20:
            with contextlib.suppress(WrongCredentials, TooManyAttempts):
                sign_in("alice", str(int(password) + 1))

    monkeypatch.setattr(services, "authenticate", slow)
    with pytest.raises(WrongCredentials):
        sign_in("alice", "1")
    assert looked_at == ["1", "2", "3", "4", "5"]


def test_addresses_of_one_network_count_together(alice: User) -> None:
    for number in range(5):
        with pytest.raises(WrongCredentials):
            sign_in("alice", "wrong", addr=f"2001:db8:0:1::{number}")
    with pytest.raises(TooManyAttempts):
        sign_in("alice", "a long enough one", addr="2001:db8:0:1:ffff::1")
    assert sign_in("alice", "a long enough one", addr="2001:db8:0:2::1") == alice


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("::ffff:10.0.0.1", "10.0.0.1"),
        ("2001:db8:0:1:2:3:4:5", "2001:db8:0:1::/64"),
        ("fe80::1%eth0", "fe80::/64"),
        ("", ""),
    ],
)
def test_an_address_counts_as_its_network(address: str, network: str) -> None:
    assert attempts.network_of(address) == network


def test_wrong_sign_ins_are_audited_without_what_may_be_a_password(alice: User) -> None:
    for name in ("alice", "a long enough one"):
        with pytest.raises(WrongCredentials):
            sign_in(name, "wrong")
    events = AuditEvent.objects.order_by("pk").values_list("actor", "verb", "subject", "remote_addr")
    assert list(events) == [
        ("not signed in", "sign-in failed", "alice", "10.0.0.1"),
        ("not signed in", "sign-in failed", "unknown name", "10.0.0.1"),
    ]


def test_strangers_do_not_fill_the_audit(alice: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "FAILURES_AUDITED_MAX", 3)
    for number in range(9):
        with pytest.raises(WrongCredentials):
            sign_in("alice", "wrong", addr=f"10.1.0.{number}")
    assert AuditEvent.objects.count() == 3


def change_password(person: User, old: str, *, now: datetime.datetime = NOW) -> None:
    services.change_password(person=person, old=old, new="another long one", remote_addr="10.0.0.1", now=now)


def test_it_changes_a_password_and_writes_it_down(alice: User) -> None:
    change_password(alice, "a long enough one")
    assert sign_in("alice", "another long one") == alice
    assert AuditEvent.objects.filter(verb="set password", actor="alice").count() == 1


def test_it_asks_for_the_present_password_and_lets_it_be_guessed_five_times(alice: User) -> None:
    for _ in range(5):
        with pytest.raises(WrongCredentials, match="not your current password"):
            change_password(alice, "wrong")
    with pytest.raises(TooManyAttempts):
        change_password(alice, "a long enough one")
    assert AuditEvent.objects.filter(verb="password change failed", actor="alice").count() == 5
    change_password(alice, "a long enough one", now=NOW + 6 * MINUTE)


def test_who_has_no_password_yet_gives_none() -> None:
    person = services.ensure_first_person()
    change_password(person, "")
    assert sign_in("admin", "another long one") == person


# --- One-time links ---


def test_it_signs_in_by_a_link_once_and_sets_a_password() -> None:
    person = services.ensure_first_person()
    key = services.create_sign_in_link(person, now=NOW)
    assert services.redeem_sign_in_link(key, password="a long enough one", now=NOW + MINUTE) == person
    assert User.objects.get(pk=person.pk).check_password("a long enough one")
    with pytest.raises(LinkInvalid):
        services.redeem_sign_in_link(key, now=NOW + MINUTE)


def test_it_keeps_no_key_of_a_link(alice: User) -> None:
    key = services.create_sign_in_link(alice, now=NOW)
    assert SignInLink.objects.get().key_sha256 == hashlib.sha256(key.encode()).hexdigest()


def test_it_leaves_the_password_alone_without_a_new_one(alice: User) -> None:
    services.redeem_sign_in_link(services.create_sign_in_link(alice, now=NOW), now=NOW)
    assert sign_in("alice", "a long enough one") == alice


@pytest.mark.parametrize("later", [15 * MINUTE, 24 * 60 * MINUTE])
def test_it_refuses_an_old_link(alice: User, later: datetime.timedelta) -> None:
    key = services.create_sign_in_link(alice, now=NOW)
    with pytest.raises(LinkInvalid):
        services.redeem_sign_in_link(key, now=NOW + later)


def test_it_refuses_an_earlier_link_when_there_is_a_newer(alice: User) -> None:
    first, second = (services.create_sign_in_link(alice, now=NOW) for _ in range(2))
    with pytest.raises(LinkInvalid):
        selectors.open_link(first, NOW)
    assert selectors.open_link(second, NOW).user == alice


def test_it_refuses_the_link_of_somebody_who_left(alice: User) -> None:
    key = services.create_sign_in_link(alice, now=NOW)
    User.objects.filter(pk=alice.pk).update(is_active=False)
    with pytest.raises(LinkInvalid):
        services.redeem_sign_in_link(key, now=NOW)


@pytest.mark.parametrize("key", ["", "x", "../etc", "'; drop table"])
def test_it_refuses_a_made_up_link(alice: User, key: str) -> None:
    services.create_sign_in_link(alice, now=NOW)
    with pytest.raises(LinkInvalid):
        services.redeem_sign_in_link(key, now=NOW)


# --- API tokens ---


def test_it_makes_a_token_and_keeps_only_its_hash(alice: User) -> None:
    token, key = services.create_token(
        owner=alice, name="ci", scopes=["VIEW", "RESET"], cluster_pattern="staging"
    )
    assert key.startswith("tm_") and len(key) == 46
    assert (token.prefix, token.key_sha256) == (key[:12], hashlib.sha256(key.encode()).hexdigest())
    event = AuditEvent.objects.get()
    assert (event.verb, event.subject, event.after) == (
        "create token",
        token.prefix,
        {"owner": "alice", "scopes": ["VIEW", "RESET"], "cluster_pattern": "staging"},
    )
    assert key not in str(event.after)


def test_it_knows_who_a_key_speaks_for_and_when_it_was_used(alice: User) -> None:
    token, key = services.create_token(owner=alice, name="ci", scopes=["VIEW"])
    principal = services.authenticate_token(key, now=NOW)
    assert (principal.username, principal.token.pk, principal.is_authenticated) == ("alice", token.pk, True)
    services.authenticate_token(key, now=NOW + MINUTE / 2)
    assert ApiToken.objects.get().last_used_at == NOW
    services.authenticate_token(key, now=NOW + MINUTE)
    assert ApiToken.objects.get().last_used_at == NOW + MINUTE


def test_it_refuses_unknown_expired_and_revoked_keys_and_those_of_people_who_left(alice: User) -> None:
    with pytest.raises(TokenInvalid, match="unknown or revoked"):
        services.authenticate_token("tm_guess", now=NOW)
    _, short = services.create_token(owner=alice, name="short", scopes=["VIEW"], expires_at=NOW + MINUTE)
    services.authenticate_token(short, now=NOW)
    with pytest.raises(TokenInvalid, match="expired at 2026-11-21 12:01 UTC"):
        services.authenticate_token(short, now=NOW + MINUTE)
    token, ended = services.create_token(owner=alice, name="ended", scopes=["VIEW"])
    assert services.revoke_token(prefix=token.prefix, actor=alice) == 1
    assert services.revoke_token(prefix=token.prefix, actor=alice) == 0
    with pytest.raises(TokenInvalid, match="unknown or revoked"):
        services.authenticate_token(ended, now=NOW)
    _, key = services.create_token(owner=alice, name="left", scopes=["VIEW"])
    User.objects.filter(pk=alice.pk).update(is_active=False)
    with pytest.raises(TokenInvalid, match="unknown or revoked"):
        services.authenticate_token(key, now=NOW)


@pytest.mark.parametrize("scopes", [[], ["EVERYTHING"], ["VIEW", "view"]])
def test_it_refuses_scopes_that_are_no_verbs(alice: User, scopes: list[str]) -> None:
    with pytest.raises(
        ValueError, match="Scopes are VIEW, SEND, RESET, REPLAY, REPORT, UNMASK, CONFIGURE, ADMIN"
    ):
        services.create_token(owner=alice, name="ci", scopes=scopes)


# --- Audit ---


def test_it_writes_down_who_was_behind_a_token(alice: User) -> None:
    token, key = services.create_token(owner=alice, name="ci", scopes=["RESET"])
    event = services.record_audit(
        actor=services.authenticate_token(key),
        verb="apply",
        cluster="local",
        subject="billing",
        before={"0": 7},
        after={"0": 9},
        plan_id="op-abcdefgh",
        remote_addr="10.0.0.1",
        now=NOW,
    )
    assert (event.actor, event.token_prefix) == ("alice", token.prefix)
    assert str(event) == "2026-11-21 12:00:00 alice apply local/billing"
    assert list(selectors.audit_events(cluster="local", subject="billing")) == [event]
    assert list(selectors.audit_events(plan_id="op-other")) == []


def test_it_calls_nobody_the_system() -> None:
    assert services.record_audit(actor=None, verb="expire").actor == "system"
    assert services.record_audit(actor="beat", verb="expire").actor == "beat"
