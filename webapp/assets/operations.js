// Operations: the columns menu and the selected operation.
(function () {
  'use strict';
  const clientside = window.dash_clientside = window.dash_clientside || /** @type {DashClientside} */ ({});
  /** Tabs that show the selected operation; others give way to its summary. */
  const OF_OPERATION = ['code', 'cycles', 'flops', 'debug'];
  const same = (a, b) => JSON.stringify(a) === JSON.stringify(b);
  const listed = (text) => text && text !== 'none' ? text.split(',') : [];

  // Choosing an operation shows it: a tab that is not about it gives way.
  let last = '';
  window.addEventListener('tilescope:address', () => {
    if (location.pathname !== '/operations') return;
    const query = new URLSearchParams(location.search);
    const op = query.get('op') || '', tab = query.get('tab') || '';
    const isNew = op !== '' && op !== last;
    last = op;
    if (isNew && tab && !OF_OPERATION.includes(tab)) window.tilescope.changeView({tab: ''}, false);
  });

  // The scripts of the graph are loaded when it is opened.
  let loading = null;
  function load(root) {
    loading = loading || Promise.all(root.dataset.scripts.split(' ').map((address) => new Promise((done, fail) => {
      const script = document.createElement('script');
      script.src = address;
      script.async = false;
      script.addEventListener('load', done);
      script.addEventListener('error', fail);
      document.head.append(script);
    }))).catch(() => { loading = null; });
    return loading;
  }

  let latest = null;
  async function showGraph(view) {
    latest = view;
    const root = document.getElementById('operations-graph');
    if (!root || !window.tilescope.isKnown(view.report)) return;
    await load(root);
    if (latest !== view) return;
    if (window.tilescopeGraph) window.tilescopeGraph.show(root, {...view});
    else root.textContent = 'The graph could not be loaded; reload the page.';
  }

  clientside.operations = {
    // The table with its controls, or the graph with its own: styles of both.
    showAs(view) {
      const isGraph = Boolean(view) && view.as === 'graph';
      if (isGraph) showGraph(view);
      else latest = null;
      const [table, graph] = isGraph ? [{display: 'none'}, {}] : [{}, {display: 'none'}];
      return [table, table, graph, graph];
    },

    // The row of the selected operation.
    mark: (view) => view && view.op ? [view.op] : [],

    // The menu shows the columns of the address, and writes them there.
    showColumns(view, shown) {
      const wanted = listed(view && view.columns);
      return same(wanted, shown) ? clientside.no_update : wanted;
    },

    chooseColumns(chosen, view, all) {
      if (!chosen || !view || location.pathname !== '/operations') return;
      // In the order of the table, so that equal choices have one address.
      const text = all.map((one) => one.value).filter((name) => chosen.includes(name)).join(',');
      if (text === view.columns) return;
      window.tilescope.changeView({columns: text || 'none'}, false);
    },
  };
})();
