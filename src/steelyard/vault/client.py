"""One Vault, spoken to with hvac: blocking calls in a few threads, each with a deadline; logins renewed in time.

While Vault is sealed or away nobody waits for it: the first who finds out is the one to ask again, after a pause that
grows to half a minute, and everybody else is told at once what that one found. hvac, and what it brings, is loaded with
the first call.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import random
import time
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeVar, cast

from steelyard.kube.objects import Object
from steelyard.vault import errors, paths
from steelyard.vault.errors import Refused, VaultError
from steelyard.vault.logins import Login, Token

T = TypeVar("T")

THREADS: Final = 4
_FIRST_PAUSE: Final = 1.0
_LONGEST_PAUSE: Final = 30.0
_RENEW_AT: Final = 2 / 3
_GRACE: Final = 5.0
"""What the deadline around a call is longer than the call's own, in seconds."""


class Answering(Protocol):
    """What is used of hvac's adapter."""

    def request(self, method: str, url: str, **options: Any) -> Any: ...


class Vault:
    def __init__(
        self,
        address: str,
        login: Login | None,
        *,
        verify: bool | str = True,
        namespace: str | None = None,
        timeout: float = 10.0,
        threads: concurrent.futures.Executor | None = None,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        """`verify` is a file with who signed Vault's certificate, or whether anybody must have. Without a login only
        what Vault tells everybody can be read."""
        self.address = address.rstrip("/")
        self._login = login
        self._verify = verify
        self._namespace = namespace
        self._timeout = timeout
        self._threads = threads or concurrent.futures.ThreadPoolExecutor(THREADS, thread_name_prefix="vault")
        self._owns_threads = threads is None
        self._monotonic = monotonic
        self._adapter: Answering | None = None
        self._token = ""
        self._renew_at: float | None = None
        self._ends_at: float | None = None
        self._is_renewable = False
        self._logging_in = asyncio.Lock()
        self._trouble: VaultError | None = None
        self._pause = 0.0
        self._ask_again_at = 0.0

    @property
    def trouble(self) -> VaultError | None:
        """Why nobody is served now; None while Vault answers."""
        return self._trouble

    @property
    def patience(self) -> float:
        """Seconds after which it is worth asking again, for those who were told of trouble: spread, so that they do
        not come all at once."""
        left = max(self._ask_again_at - self._monotonic(), 0.0)
        return left + random.uniform(0.2, 1.0) * max(self._pause, _FIRST_PAUSE)  # noqa: S311 (jitter, not a secret)

    @property
    def renews_in(self) -> float | None:
        """Seconds after which the login wants to be renewed; None where it does not end."""
        return None if self._renew_at is None else max(self._renew_at - self._monotonic(), 0.0)

    async def read(self, path: str) -> Object | None:
        """What is there; None where nothing is, or no engine."""
        try:
            return await self._call("get", path)
        except errors.NotFound:
            return None

    async def list(self, path: str) -> list[str]:
        """Names below the path; those of folders end in a slash."""
        try:
            found = await self._call("list", path)
        except errors.NotFound:
            return []
        return [str(each) for each in cast("list[object]", _mapping(found.get("data")).get("keys") or [])]

    async def write(self, path: str, data: Object) -> Object:
        return await self._call("post", path, data)

    async def delete(self, path: str) -> None:
        """Nothing happens where nothing is."""
        try:
            await self._call("delete", path)
        except errors.NotFound:
            return

    async def check(self) -> None:
        """Raises what keeps the login from working; renews it where that is due."""
        await self._call("get", "auth/token/lookup-self")

    def close(self) -> None:
        if self._owns_threads and isinstance(self._threads, concurrent.futures.ThreadPoolExecutor):
            self._threads.shutdown(wait=False, cancel_futures=True)

    async def _call(self, method: str, path: str, data: Object | None = None) -> Object:
        paths.checked(path)
        self._raise_known_trouble()
        try:
            await self._log_in()
            try:
                found = await self._request(method, path, data)
            except Refused:
                # The login may have ended before its time; whoever can show something logs in once more.
                if self._login is None or isinstance(self._login, Token):
                    raise
                await self._log_in(anew=self._token)
                found = await self._request(method, path, data)
        except VaultError as error:
            self._note(error)
            raise
        self._trouble, self._pause = None, 0.0
        return found

    def _raise_known_trouble(self) -> None:
        if self._trouble is None:
            return
        if self._monotonic() < self._ask_again_at:
            raise self._trouble
        # This one asks; the others go on hearing what was found last.
        self._ask_again_at = self._monotonic() + self._timeout + _GRACE

    def _note(self, error: VaultError) -> None:
        if not isinstance(error, errors.Away | errors.Sealed):
            self._trouble, self._pause = None, 0.0
            return
        self._trouble = error
        self._pause = min(max(self._pause * 2, _FIRST_PAUSE), _LONGEST_PAUSE)
        self._ask_again_at = self._monotonic() + self._pause

    async def _log_in(self, *, anew: str = "") -> None:
        """With a login that works; `anew` is a token that no longer does."""
        async with self._logging_in:
            if self._login is None:
                return
            if not self._token or (anew and anew == self._token):
                await self._first_token(self._login)
            elif self._renew_at is not None and self._monotonic() >= self._renew_at:
                await self._renew(self._login)

    async def _first_token(self, login: Login) -> None:
        if isinstance(login, Token):
            self._token = login.value
            # How long it lives is not known before it is asked.
            found = await self._request("get", "auth/token/lookup-self")
            self._believe(_mapping(found.get("data")), "ttl")
            return
        self._token = ""
        shown = await login.show()
        try:
            found = await self._request("post", login.path, shown)
        except (errors.Refused, errors.Invalid, errors.NotFound) as error:
            told = errors.without(error, (str(each) for each in shown.values()))
            raise Refused(f"the login at {login.path} fails: {told}") from None
        auth = _mapping(found.get("auth"))
        self._token = str(auth.get("client_token") or "")
        self._believe(auth, "lease_duration")

    async def _renew(self, login: Login) -> None:
        if self._is_renewable:
            try:
                found = await self._request("post", "auth/token/renew-self", {})
            except (errors.Refused, errors.Invalid, errors.NotFound):
                if isinstance(login, Token):
                    # It may still live for the rest of its time; the call itself finds out.
                    self._renew_at = None
                    return
            else:
                auth = _mapping(found.get("auth"))
                before = self._ends_at
                self._believe(auth, "lease_duration")
                # Near its maximum a token's life is no longer prolonged.
                is_prolonged = before is None or self._ends_at is None or self._ends_at > before
                if is_prolonged or isinstance(login, Token):
                    return
        if not isinstance(login, Token):
            await self._first_token(login)

    def _believe(self, auth: Object, field: str) -> None:
        ttl = float(cast(Any, auth.get(field)) or 0)
        now = self._monotonic()
        self._is_renewable = bool(auth.get("renewable"))
        can_be_had_again = self._is_renewable or not isinstance(self._login, Token)
        self._ends_at = now + ttl if ttl else None
        self._renew_at = now + ttl * _RENEW_AT if ttl and can_be_had_again else None

    async def _request(self, method: str, path: str, data: Object | None = None) -> Object:
        token = self._token

        def ask() -> Object:
            adapter = self._adapter or self._connect()
            options: dict[str, Any] = {} if data is None else {"json": data}
            # Beside the request, and not in the adapter, which several threads share.
            options["headers"] = {"X-Vault-Token": token} if token else {}
            return _decoded(adapter.request(method, f"/v1/{path}", **options))

        try:
            return await self._in_thread(ask)
        except VaultError:
            raise
        except Exception as error:
            is_sealed = await self._is_sealed() if type(error).__name__ == "VaultDown" else None
            raise errors.mapped(error, self.address, path, is_sealed=is_sealed) from None

    async def _is_sealed(self) -> bool | None:
        def ask() -> Object:
            return _decoded((self._adapter or self._connect()).request("get", "/v1/sys/seal-status"))

        try:
            return bool((await self._in_thread(ask)).get("sealed"))
        except Exception:
            return None

    async def _in_thread(self, ask: Callable[[], T]) -> T:
        async with asyncio.timeout(self._timeout * 2 + _GRACE):
            return await asyncio.get_running_loop().run_in_executor(self._threads, ask)

    def _connect(self) -> Answering:
        """What is on disk or in the environment about proxies and accounts is no business of the platform's; and a
        Vault that sends elsewhere does not get the token shown there."""
        import hvac

        import requests

        session = requests.Session()
        session.trust_env = False
        session.verify = self._verify
        timeout: Any = self._timeout
        made: Any = hvac.Client(
            url=self.address,
            verify=self._verify,
            timeout=timeout,
            allow_redirects=False,
            session=session,
            namespace=self._namespace,
        )
        # hvac looks for one in the environment.
        made.token = None
        self._adapter = cast(Answering, made.adapter)
        return self._adapter


def _decoded(answer: Any) -> Object:
    """hvac gives JSON where there was some, and the response where there was none."""
    if isinstance(answer, dict):
        return cast(Object, answer)
    if getattr(answer, "is_redirect", False):
        raise errors.Away(
            f"Vault sends elsewhere, to {answer.headers.get('location', '')[:100]}: give the address of the active "
            "server, or of what leads to it"
        )
    return {}


def _mapping(value: object) -> Object:
    return cast(Object, value) if isinstance(value, dict) else {}
