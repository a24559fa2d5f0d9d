// The state of the reports of a page, as a notice. A report whose engine runs is looked at every two
// seconds: when it has grown, the panels of the visible page are filled anew, and when the run is over,
// the page moves to its finished report. One that is being verified is looked at until that is done.
(function () {
  'use strict';
  const clientside = window.dash_clientside = window.dash_clientside || /** @type {DashClientside} */ ({});
  const EVERY_MS = 2000;
  /** What pages show, by the id of their store. @type {Map<string, {path: string, view: Record<string, string>}>} */
  const shown = new Map();
  /** What the server said of a report, by id. @type {Map<string, {isLive: boolean, stamp: string, sentence: string}>} */
  const states = new Map();
  let isLooking = false;

  function visible() {
    return [...shown].find(([, page]) => page.path === location.pathname);
  }

  // Shows sentences, a paragraph each. Only another state is announced, not every sign of life.
  function notice(sentences) {
    let box = document.getElementById('live-notice');
    if (!sentences.length) { box?.remove(); return; }
    if (!box) {
      box = document.createElement('div');
      box.id = 'live-notice';
      box.className = 'notice notice-warning live-notice';
      box.setAttribute('role', 'status');
      (document.getElementById('content') || document.body).prepend(box);
    }
    if (box.textContent === sentences.join('')) return;
    const kinds = sentences.map((text) => text.split(/[;:] (?=its)/)[0]).join();
    box.setAttribute('aria-live', box.dataset.kinds === kinds ? 'off' : 'polite');
    box.dataset.kinds = kinds;
    const lines = document.createElement('div');
    lines.replaceChildren(...sentences.map((text) => {
      const line = document.createElement('p');
      line.textContent = text;
      return line;
    }));
    box.replaceChildren(lines);
  }

  // Asks for the state of a report; returns the id of its finished file once the run is over.
  async function ask(id) {
    const answer = await fetch('/api/reports/' + encodeURIComponent(id) + '/state', {credentials: 'same-origin'});
    if (!answer.ok) { states.set(id, {isLive: false, stamp: '', sentence: ''}); return ''; }
    const {is_running: isRunning, is_pending: isPending, state, stamp, sentence, successor} = await window.tilescope_text.read(answer);
    if (successor) return successor;
    states.set(id, {isLive: isRunning || isPending, stamp, sentence});
    const inMenus = window.tilescope.frame.reports.find((report) => report.id === id);
    if (inMenus && inMenus.state !== state) await window.tilescope.refreshReports();
    return '';
  }

  // Looks at the reports of the visible page; returns whether the state of one may change.
  async function look() {
    const found = visible();
    if (!found) return false;
    const [store, {view}] = found;
    const names = ['report', 'with'].filter((name) => view[name] && window.tilescope.isKnown(view[name]));
    let hasGrown = false;
    for (const name of names) {
      const before = states.get(view[name]);
      if (before && !before.isLive) continue;
      const successor = await ask(view[name]);
      if (successor) {
        await window.tilescope.refreshReports();
        window.tilescope.changeView({[name]: successor}, false);
        notice([]);
        return true;
      }
      hasGrown = hasGrown || Boolean(before && before.stamp !== states.get(view[name]).stamp);
    }
    const grown = shown.get(store);
    if (hasGrown && grown && grown.view === view) {
      clientside.set_props(store, {data: {...view, live: String(Date.now())}});
    }
    const known = names.map((name) => ({name, ...states.get(view[name])}));
    const sentences = known.filter(({sentence}) => sentence).map(({name, sentence}) => (
      view.with ? (name === 'with' ? 'Candidate: ' : 'Baseline: ') + sentence : sentence));
    if (visible()?.[1].view.report === view.report) notice(sentences);
    return known.some(({isLive}) => isLive);
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
