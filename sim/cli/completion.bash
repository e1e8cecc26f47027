# SPDX-License-Identifier: BSD-3-Clause
# Completion of doppel for bash. Commands, options and machines come from the program that is
# completed, so they are those of its version.
_doppel_words()
{
	local doppel=$1 command=$2 previous=$3 current=$4
	case $previous:$current in
	--machine:*) "$doppel" topo show no-such-machine 2>&1 | sed -n 's/.*or one of //p' | tr -d , ;;
	--engine:*) echo sim threads ;;
	*:-*) "$doppel" "$command" --help | grep -oE -- '--[a-z][a-z-]*' | sort -u ;;
	*) case $command in
		run | sweep | tune) "$doppel" "${command/sweep/run}" no-such-collective 2>&1 | sed -n 's/.*there are: //p' | tr -d , ;;
		topo) echo show search check diff plot detect ;;
		exec | verbs-run) compgen -c -- "$current" ;;
		esac ;;
	esac
}

_doppel()
{
	local current=${COMP_WORDS[COMP_CWORD]} words
	if [ "$COMP_CWORD" = 1 ]; then
		words="--help --version $("${COMP_WORDS[0]}" --help | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p')"
	else
		words=$(_doppel_words "${COMP_WORDS[0]}" "${COMP_WORDS[1]}" "${COMP_WORDS[COMP_CWORD - 1]}" \
			"$current")
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$current")
	[ "$COMP_CWORD" = 1 ] || [ "${current#-}" != "$current" ] ||
		mapfile -t -O "${#COMPREPLY[@]}" COMPREPLY < <(compgen -f -- "$current")
}
complete -o filenames -F _doppel doppel
