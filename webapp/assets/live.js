// A report that is still being written: the page looks whether it has grown, every two seconds, and the
// panels of the visible page are filled anew. When the run is over, the page moves to its finished report.
(function () {
  'use strict';
  const clientside = window.dash_clientside = window.dash_clientside || /** @type {DashClientside} */ ({});
  const EVERY_MS = 2000;
  /** What pages show, by the id of their store. @type {Map<string, {path: string, view: Record<string, string>}>} */
  const shown = new Map();
  /** By report: its last state, false once it is complete. @type {Map<string, string | false>} */
  const states = new Map();
  let isLooking = false;

  function visible() {
    return [...shown].find(([, page]) => page.path === location.pathname);
  }

  function notice(text) {
    let box = document.getElementById('live-notice');
    if (!text) { box?.remove(); return; }
    if (!box) {
      box = document.createElement('div');
      box.id = 'live-notice';
      box.className = 'notice live-notice';
      box.setAttribute('role', 'status');
      (document.getElementById('content') || document.body).prepend(box);
    }
    if (box.textContent !== text) box.textContent = text;
  }

  // Looks at the reports of the visible page; returns whether one of them is still written.
  async function look() {
    const found = visible();
    if (!found) return false;
    const [store, {view}] = found;
    let isLive = false;
    let hasGrown = false;
    for (const name of ['report', 'with']) {
      const id = view[name];
      if (!id || states.get(id) === false || !window.tilescope.isKnown(id)) continue;
      const answer = await fetch('/api/reports/' + encodeURIComponent(id) + '/state', {credentials: 'same-origin'});
      if (!answer.ok) { states.set(id, false); continue; }
      const {is_complete: isComplete, state, successor} = await answer.json();
      if (successor) {
        await window.tilescope.refreshReports();
        window.tilescope.changeView({[name]: successor}, false);
        notice('');
        return true;
      }
      hasGrown = hasGrown || (states.has(id) && states.get(id) !== state);
      states.set(id, isComplete ? false : state);
      isLive = isLive || !isComplete;
    }
    const grown = shown.get(store);
    if (hasGrown && grown && grown.view === view) {
      clientside.set_props(store, {data: {...view, live: String(Date.now())}});
    }
    notice(isLive ? 'This report is still being written; the page follows the run.' : '');
    return isLive;
  }

  async function watch() {
    if (isLooking) return;
    isLooking = true;
    try {
      while (await look()) await new Promise((resolve) => { setTimeout(resolve, EVERY_MS); });
    } catch (error) { /* the server is gone; the next view looks again */ }
    isLooking = false;
  }

  clientside.live = {
    note(view, spec) {
      if (!view) return;
      shown.set('view-' + spec.name, {path: spec.path, view});
      watch();
    },
  };
})();
