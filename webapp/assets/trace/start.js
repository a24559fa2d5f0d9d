// Start of the trace, and the callbacks of its page.
(function () {
  'use strict';
  const space = window.tilescopeTrace = window.tilescopeTrace || /** @type {TraceSpace} */ ({});
  const clientside = window.dash_clientside = window.dash_clientside || /** @type {DashClientside} */ ({});

  function viewerOf(id) {
    const root = document.getElementById(id);
    return root && space.viewerIn(root);
  }

  const FIELDS = ['with', 'align', 'view', 'ipus', 'find', 'range', 'mark', 'marks', 'notes', 'closed', 'opened', 'at', 'node', 'merge', 'hide', 'tiles', 'pins'];

  // The state in the address now; a callback's may be older.
  /** @returns {Record<string, string>} */
  function fromAddress(report) {
    const query = new URLSearchParams(location.search);
    /** @type {Record<string, string>} */
    const view = Object.fromEntries(FIELDS.map((name) => [name, query.get(name) || '']));
    return {...view, view: view.view || 'flame', report: query.get('report') || report};
  }

  /** About the width of the picture, before the page is laid out. */
  space.guessedWidth = () => Math.max(200, window.innerWidth - 300);

  // The page itself starts slowly: fetch as soon as this script runs, and draw as soon as the element
  // exists. The callback that follows finds the same view and leaves it alone.
  (function early() {
    const view = fromAddress('');
    if (location.pathname !== '/trace' || !view.report || view.with) return;
    const source = new space.Source(view.report);
    space.early = {
      report: view.report, source, names: source.loadNames(), extent: source.json('extent'),
    };
    // Also fetch a first answer for about the right width, so that painting needs no other request.
    space.early.extent.then(async (extent) => {
      const {start_cycle: low, end_cycle: high, tracks} = extent;
      const range = /^(\d+):(\d+)$/.exec(view.range);
      if (!tracks.length || tracks.length > space.MOST_GROUPS || view.ipus || view.closed) return;
      const ipus = [...new Set(tracks.map((track) => track.ipu_id))].slice(0, 4).join(',');
      const width = space.guessedWidth();
      const opening = view.range === 'all' || view.at || view.mark ? {start: low, end: high} : space.openingRange(extent, width);
      const start = range ? Math.max(low, Number(range[1])) : opening.start;
      const end = range ? Math.min(high, Number(range[2])) : opening.end;
      const place = space.windowOf({start, end}, {start: low, end: high}, (end - start) / width, 1);
      const answer = await space.early.source.window(
        {start: place.start, end: place.end, width: place.pixels, view: space.viewOf(view), ipus, steps: Number(space.viewOf(view) !== 'flat')},
      );
      if (space.early) space.early.answer = answer;
    }).catch(() => {});
    space.early.names.catch(() => {});
    space.early.extent.catch(() => {});
    const watch = new MutationObserver(() => {
      const root = document.getElementById('trace-viewer');
      if (!root || root.offsetParent === null) return;
      watch.disconnect();
      viewerOf('trace-viewer').show(view);
    });
    watch.observe(document.documentElement, {childList: true, subtree: true, attributes: true, attributeFilter: ['style']});
  })();

  const later = (act) => requestAnimationFrame(() => requestAnimationFrame(act));

  clientside.trace = {
    // The view in the address has changed: follow it once the page has been laid out.
    show(view) {
      if (!view) return;
      setTimeout(() => { space.isStarted = true; }, space.QUIET_MS);
      later(() => {
        const root = document.getElementById('trace-viewer');
        if (location.pathname !== '/trace' || !root) return;
        /** @type {Record<string, string>} */
        const seen = {...fromAddress(view.report), live: view.live || ''};
        const isDifference = seen.view === 'difference' && seen.with !== '';
        const page = root.closest('.trace-page');
        page.classList.toggle('is-difference', isDifference);
        page.classList.toggle('is-pair', seen.with !== '');
        if (isDifference) space.differenceIn(document.getElementById('trace-difference')).show(seen);
        else viewerOf('trace-viewer').show(seen);
      });
    },
    act(...clicks) {
      const button = clientside.callback_context.triggered_id;
      const viewer = viewerOf('trace-viewer');
      if (!viewer || !viewer.extent || !clicks.some(Boolean)) return;
      ({
        'trace-note': () => viewer.askNote(),
        'trace-keep': () => viewer.keepMark(),
        'trace-picture': () => space.savePicture(viewer),
        'trace-all': () => viewer.showAll(),
        'trace-in': () => viewer.zoomAt(1 / 2, 0.5, true),
        'trace-out': () => viewer.zoomAt(2, 0.5, true),
        'trace-focus': () => viewer.focusSelection(),
        'trace-previous': () => viewer.findNext('previous'),
        'trace-next': () => viewer.findNext('next'),
      })[button]?.();
    },
  };
})();
