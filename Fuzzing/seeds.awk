# Writes each text in double or triple quotes of Swift files, and each record of sqllogictest scripts, to a file of its
# own in the folder `to`.

function seed(text) {
    if (length(text) < 6 || seen[text]++) return
    printf "%s", text > (to "/" sprintf("%05d", ++count))
    close(to "/" sprintf("%05d", count))
}

function unescaped(text) {
    gsub(/\\n/, "\n", text)
    gsub(/\\"/, "\"", text)
    gsub(/\\\\/, "\\", text)
    return text
}

FNR == 1 { inside = 0; record = "" }

FILENAME ~ /\.test$/ {
    if ($0 ~ /^(statement|query|skipif|onlyif|halt|hash-threshold|#)/) next
    if ($0 == "" || $0 == "----") { if (!results) seed(record); record = ""; results = $0 == "----" } else record = record $0 "\n"
    next
}

/"""$/ || /^ *"""/ {
    if (inside) { seed(record); inside = 0 } else { inside = 1; record = "" }
    next
}

inside { record = record unescaped($0) "\n"; next }

{
    rest = $0
    while (match(rest, /"([^"\\]|\\.)+"/)) {
        seed(unescaped(substr(rest, RSTART + 1, RLENGTH - 2)))
        rest = substr(rest, RSTART + RLENGTH)
    }
}
