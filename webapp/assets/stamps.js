// Everything that a page shows comes from one state of a report's file: the page sends the stamps of
// the files that it has read, the server refuses to answer from other ones, and the page says so. It
// also says when the server does not answer, or does not let this browser in any more.
(function () {
  'use strict';
  const HEADER = 'X-TileScope-Stamps';
  const known = new Map();
  const send = window.fetch.bind(window);

  const AGAIN_MS = 3000;
  let isWaiting = false;

  /** Shows a sentence above the page with a button that loads it anew; the same notice only once. */
  function tell(id, sentence) {
    let notice = document.getElementById(id);
    if (!notice) {
      notice = document.createElement('div');
      notice.id = id;
      notice.className = 'notice notice-warning';
      notice.setAttribute('role', 'alert');
      const button = document.createElement('button');
      button.type = 'button';
      button.textContent = 'Reload';
      button.addEventListener('click', () => location.reload());
      notice.append(document.createElement('div'), button);
      (document.getElementById('content') || document.body).prepend(notice);
    }
    if (notice.firstChild.textContent !== sentence) notice.firstChild.textContent = sentence;
  }

  // Asks until the server answers, so that the page can say so.
  async function wait() {
    if (isWaiting) return;
    isWaiting = true;
    for (let isBack = false; !isBack;) {
      await new Promise((resolve) => { setTimeout(resolve, AGAIN_MS); });
      isBack = await send('/api/reports').then((answer) => judge(answer) && answer.ok, () => false);
    }
    isWaiting = false;
    tell('server-notice', 'The server answers again; reload the page to fill in what is missing.');
  }

  // Says what an answer means for all requests; returns true.
  function judge(answer) {
    if (answer.status === 401) {
      tell('server-notice', 'The server does not know this browser any more: open the link that'
        + ' tilescope serve printed, then reload this page.');
    } else if (answer.status >= 500) {
      tell('server-notice', 'The server failed to answer a request; its terminal says why. Reload the page'
        + ' to try again.');
    }
    return true;
  }

  window.fetch = async function (resource, options) {
    const url = new URL(resource instanceof Request ? resource.url : resource, location.href);
    if (url.origin !== location.origin) return send(resource, options);
    const request = new Request(resource, options);
    if (known.size) {
      request.headers.set(HEADER, [...known].map(([id, stamp]) => id + '=' + stamp).join(','));
    }
    let response;
    try {
      response = await send(request);
    } catch (error) {
      if (error.name !== 'AbortError' && !request.signal.aborted) {
        tell('server-notice', 'The server does not answer: it was stopped, or the connection is lost. Start'
          + ' tilescope serve again; this page says when it answers.');
        wait();
      }
      throw error;
    }
    judge(response);
    for (const part of (response.headers.get(HEADER) || '').split(',')) {
      const [id, stamp] = part.split('=');
      if (!stamp) continue;
      if (!known.has(id)) known.set(id, stamp);
      else if (known.get(id) !== stamp) {
        tell('changed-notice', 'The report file changed; reload the page to see the new report.');
      }
    }
    return response;
  };
})();
