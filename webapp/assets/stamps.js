// Everything that a page shows comes from one state of a report's file: the page sends the stamps of
// the files that it has read, the server refuses to answer from other ones, and the page says so.
(function () {
  'use strict';
  const HEADER = 'X-TileScope-Stamps';
  const known = new Map();
  const send = window.fetch.bind(window);

  function tell() {
    if (document.getElementById('changed-notice')) return;
    const notice = document.createElement('div');
    notice.id = 'changed-notice';
    notice.className = 'notice notice-warning';
    notice.setAttribute('role', 'alert');
    const text = document.createElement('div');
    text.textContent = 'The report file changed; reload the page to see the new report.';
    const button = document.createElement('button');
    button.type = 'button';
    button.textContent = 'Reload';
    button.addEventListener('click', () => location.reload());
    notice.append(text, button);
    (document.getElementById('content') || document.body).prepend(notice);
  }

  window.fetch = async function (resource, options) {
    const url = new URL(resource instanceof Request ? resource.url : resource, location.href);
    if (url.origin !== location.origin) return send(resource, options);
    const request = new Request(resource, options);
    if (known.size) {
      request.headers.set(HEADER, [...known].map(([id, stamp]) => id + '=' + stamp).join(','));
    }
    const response = await send(request);
    for (const part of (response.headers.get(HEADER) || '').split(',')) {
      const [id, stamp] = part.split('=');
      if (!stamp) continue;
      if (!known.has(id)) known.set(id, stamp);
      else if (known.get(id) !== stamp) tell();
    }
    return response;
  };
})();
