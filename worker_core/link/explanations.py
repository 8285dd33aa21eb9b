"""From an error of the HTTP library to a fault in words, whatever stood between: proxy, certificate, dead line."""

from worker_core.link.faults import (
    TransportFault,
    certificate_fault,
    explain_certificate,
    explain_proxy_error,
    explain_transport_error,
)
from worker_core.link.route import shown_proxy


def explain(error: BaseException, url: str, host: str, proxy: str | None) -> TransportFault:
    """Say what happened on the way to ``url``; a certificate that is not believed is looked at again, for seconds."""
    unbelieved = certificate_fault(error)
    if unbelieved is not None:
        from worker_core.link import certificates  # cryptography's X.509 half is needed on such a day only

        return explain_certificate(unbelieved, host, str(certificates.look(url, proxy) or ""), certificates.today())
    if proxy is not None:
        return explain_proxy_error(error, host, shown_proxy(proxy))
    return explain_transport_error(error, host)
