// Charts write zooms and clicks into the URL; the server draws what the URL says.
(function () {
  'use strict';
  const clientside = window.dash_clientside = window.dash_clientside || /** @type {DashClientside} */ ({});
  let withShift = false;
  window.addEventListener('pointerdown', (event) => { withShift = event.shiftKey; }, true);

  function clickedPosition(click) {
    return click && click.points && click.points.length ? Math.round(click.points[0].x) : null;
  }

  // Plotly is the largest script, and only two pages have charts: it is loaded when a chart is shown
  // or once the page is idle. Until then a promise takes its place, which Dash's graphs await.
  const PLOTLY = '/assets/plotly-basic.min.js?m=4.1.1';
  let loadPlotly;
  const loaded = window.Plotly = new Promise((resolve, reject) => {
    loadPlotly = () => {
      loadPlotly = () => {};
      const script = document.createElement('script');
      script.src = PLOTLY;
      script.onload = () => resolve(window.Plotly);
      script.onerror = () => reject(new Error('The script that draws charts could not be loaded.'));
      document.head.append(script);
    };
  });
  loaded.catch((error) => console.error(error.message));
  if (/^\/(memory|liveness)$/.test(location.pathname)) loadPlotly();
  window.addEventListener('load', () => setTimeout(() => loadPlotly(), 2000));
  window.addEventListener('tilescope:page', () => {
    const isShown = (figure) => figure.offsetParent !== null;
    if ([...document.querySelectorAll('[role="figure"]')].some(isShown)) loadPlotly();
  });

  clientside.charts = {
    zoom(change) {
      if (!change) return;
      let range = change['xaxis.range'];
      if (!range && change['xaxis.range[0]'] !== undefined) {
        range = [change['xaxis.range[0]'], change['xaxis.range[1]']];
      }
      if (range) {
        const [low, high] = range.map(Number);
        const digits = high - low > 50 ? 0 : 2;
        window.tilescope.changeView({x: low.toFixed(digits) + ':' + high.toFixed(digits)}, false);
      } else if (change['xaxis.autorange'] || change.autosize === undefined && change['xaxis.showspikes']) {
        window.tilescope.changeView({x: ''}, false);
      }
    },

    pick_tile(click) {
      const tile = clickedPosition(click);
      if (tile === null) return clientside.no_update;
      const before = new URLSearchParams(location.search).get('tiles') || '';
      // Plotly may report a click twice while it redraws; select the tile once.
      if (withShift && before.split(',').includes(String(tile))) return null;
      const tiles = withShift && before ? before + ',' + tile : String(tile);
      window.tilescope.changeView({tiles}, true);
      return null;
    },

    pick_ranked_tile(rows) {
      if (!rows || !rows.length || rows[0].tile === undefined) return;
      window.tilescope.changeView({tiles: String(rows[0].tile)}, true);
    },

    pick_step(click) {
      let step = clickedPosition(click);
      if (step === null) return clientside.no_update;
      // Of two reports, the axis counts aligned steps; a point carries the step of its own report.
      const data = click.points[0].customdata;
      if (Array.isArray(data)) step = data[1];
      window.tilescope.changeView({step: String(step)}, true);
      return null;
    },

    pick_variable(rows) {
      if (!rows || !rows.length || rows[0].name === undefined) return;
      window.tilescope.changeView({var: rows[0].name, breakdown: 'variables'}, true);
    },

    pick_operation(rows) {
      if (!rows || !rows.length || rows[0].key === undefined) return;
      const changes = {op: rows[0].key, tab: ''};
      // Plans belong to library calls, whichever layer is listed.
      if (rows[0].layer) changes.layer = '';
      window.tilescope.changeView(changes, true);
    },

    pick_ranked_step(rows) {
      if (!rows || !rows.length || rows[0].step === undefined) return;
      window.tilescope.changeView({step: String(rows[0].step)}, true);
    },
  };

  // What a chart offers to pick, in the order of its axis: tiles and steps by number; of two
  // reports the steps that the points of the first one carry.
  function offered(figure) {
    const graph = figure.querySelector('.js-plotly-plot');
    const trace = graph && graph._fullData && graph._fullData[0];
    if (!trace || !trace.x || !trace.x.length) return [];
    if (trace.customdata && Array.isArray(trace.customdata[0])) {
      return [...new Set(Array.from(trace.customdata, (point) => String(point[1])))];
    }
    const at = Array.from(trace.x, Math.round);
    return Array.from({length: at[at.length - 1] - at[0] + 1}, (_, i) => String(at[0] + i));
  }

  // The keys of a chart that has the focus: arrows (ten at a time with Shift), Home, End, Escape.
  clientside.charts.key = (figure, name, key, isFast) => {
    if (key === 'Escape') return {[name]: ''};
    const values = offered(figure);
    const last = values.length - 1;
    if (last < 0) return null;
    const chosen = (new URLSearchParams(location.search).get(name) || '').split(',').pop();
    const before = values.indexOf(chosen);
    const far = isFast ? 10 : 1;
    const after = {
      ArrowRight: before < 0 ? 0 : before + far, ArrowLeft: before < 0 ? last : before - far,
      Home: 0, End: last,
    }[key];
    if (after === undefined) return null;
    return {[name]: values[Math.max(0, Math.min(last, after))]};
  };

  document.addEventListener('keydown', (event) => {
    const figure = /** @type {HTMLElement} */ (event.target);
    if (!figure.matches('[role="figure"]') || event.ctrlKey || event.altKey || event.metaKey) return;
    const name = location.pathname === '/liveness' ? 'step' : 'tiles';
    const changes = clientside.charts.key(figure, name, event.key, event.shiftKey);
    if (!changes) return;
    event.preventDefault();
    window.tilescope.changeView(changes, false);
  });

  // Nested tables: closing a row hides the rows whose keys start with its own.
  document.addEventListener('click', (event) => {
    const button = /** @type {Element} */ (event.target).closest('button.disclosure');
    if (!button) return;
    const row = button.closest('tr');
    const isOpen = button.getAttribute('aria-expanded') === 'true';
    button.setAttribute('aria-expanded', String(!isOpen));
    button.textContent = isOpen ? '▸' : '▾';
    const rows = [...row.closest('tbody').rows];
    const closed = rows
      .filter((parent) => parent.querySelector('button.disclosure[aria-expanded="false"]'))
      .map((parent) => parent.dataset.key + '/');
    for (const child of rows) child.hidden = closed.some((key) => child.dataset.key.startsWith(key));
  });
})();
