// Rows picked in grids are written into the URL, and nested tables open and close.
(function () {
  'use strict';
  const clientside = window.dash_clientside = window.dash_clientside || /** @type {DashClientside} */ ({});
  clientside.charts = Object.assign(clientside.charts || {}, {
    pick_ranked_tile(rows) {
      if (!rows || !rows.length || rows[0].tile === undefined) return;
      window.tilescope.changeView({tiles: String(rows[0].tile)}, true);
    },

    pick_variable(rows) {
      if (!rows || !rows.length || rows[0].name === undefined) return;
      window.tilescope.changeView({var: rows[0].name, breakdown: 'variables'}, true);
    },

    // Its life is drawn on the graph.
    pick_live_variable(rows) {
      if (!rows || !rows.length || rows[0].name === undefined) return;
      window.tilescope.changeView({var: rows[0].name}, true);
    },

    pick_ranked_step(rows) {
      if (!rows || !rows.length || rows[0].step === undefined) return;
      window.tilescope.changeView({step: String(rows[0].step)}, true);
    },
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
